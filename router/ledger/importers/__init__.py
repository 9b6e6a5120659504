"""Readers of other people's records: each turns one kind of file into rows of the ledger."""
