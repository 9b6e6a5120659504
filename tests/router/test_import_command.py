"""`router import` as its users meet it: what it says, where rejected lines go, and how it ends."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from router.cli import main
from router.ledger import open_ledger

ALL = (0, 2**20 * 900_000_000 * 3)

Run = Callable[..., tuple[int, str, str]]

CSV = (
    "id,when,model,prompt,completion\n"
    "a,2026-10-01T00:00:00Z,gpt-4.1,1000,100\n"
    "b,2026-10-01T12:00:00Z,gpt-4.1,2000,0\n"
    "c,2026-10-02T00:00:00Z,my-deployment,10,1\n"
)
COLUMNS = ("--column", "started=when", "--column", "input_tokens=prompt", "--column", "output_tokens=completion")
# gpt-4.1 costs 2.00 and 8.00 per Mtok: 3,000 × 2e-6 + 100 × 8e-6 = 0.0068.
SPAN = "; from 2026-10-01 00:00 to 2026-10-02 00:00 UTC\n"


@pytest.fixture
def router(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Return a function that runs the command line in an empty folder: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ROUTER_DATABASE_URL", f"sqlite:///{tmp_path / 'ledger.db'}")
    (tmp_path / "calls.csv").write_text(CSV)

    def call(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(("import", *arguments))
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out, err

    return call


def test_it_says_what_it_added_and_what_it_could_not_price(router: Run) -> None:
    code, out, err = router("generic", "calls.csv", *COLUMNS)
    sums = "0 lines rejected; 3,010 input and 101 output tokens; list cost USD 0.0068 (1 unpriced)"
    assert (code, out) == (0, f"3 requests: 3 added, 0 already there, {sums}{SPAN}")
    hint = "--model-map my-deployment=MODEL says what it is, --list where it was bought"
    assert err == f"unpriced: my-deployment: 1 rows; {hint}\n"
    assert router("generic", "calls.csv", *COLUMNS)[1] == f"3 requests: 0 added, 3 already there, {sums}{SPAN}"


def test_a_model_map_and_columns_may_be_files(router: Run, tmp_path: Path) -> None:
    (tmp_path / "models.toml").write_text('"my-deployment" = "gpt-4.1-mini"\n')
    (tmp_path / "columns.toml").write_text(
        '[columns]\nstarted = "when"\ninput_tokens = "prompt"\noutput_tokens = "completion"\n'
    )
    code, out, err = router("generic", "calls.csv", "--columns", "columns.toml", "--model-map", "models.toml")
    # gpt-4.1-mini costs 0.40 and 1.60: 10 × 0.4e-6 + 1 × 1.6e-6 = 0.0000056.
    assert (code, err) == (0, "")
    assert "list cost USD 0.0068056;" in out


def test_json_has_raw_numbers_and_text_amounts(router: Run) -> None:
    code, out, _ = router("generic", "calls.csv", *COLUMNS, "--format", "json")
    found = json.loads(out)
    assert code == 0
    assert (found["added"], found["dry_run"], found["reported_cost_usd"]) == (3, False, None)
    assert found["list_cost"] == [{"currency": "USD", "amount": "0.0068"}]
    assert found["unpriced_models"] == {"my-deployment": 1}
    assert (found["first_us"], found["last_us"]) == (1_790_812_800_000_000, 1_790_899_200_000_000)


def test_a_dry_run_writes_nothing_at_all(router: Run, tmp_path: Path) -> None:
    (tmp_path / "calls.csv").write_text(f"{CSV}d,yesterday,gpt-4.1,1,1\n")
    code, out, err = router("generic", "calls.csv", *COLUMNS, "--dry-run")
    assert code == 0
    assert out.startswith("3 requests: nothing written (dry run), 1 lines rejected;")
    assert "rejected: line 5: when is 'yesterday'" in err
    assert [path.name for path in tmp_path.iterdir()] == ["calls.csv"]


def test_rejected_lines_go_to_a_file_that_is_never_written_over(router: Run, tmp_path: Path) -> None:
    (tmp_path / "calls.csv").write_text(f'{CSV}d,yesterday,gpt-4.1,1,1\ne,2026-10-01,gpt-4.1,"1,000",1\n')
    code, _, err = router("generic", "calls.csv", *COLUMNS, "-z", "UTC")
    assert code == 0
    assert "rejected lines are in calls.csv.rejects.csv\n" in err
    written = (tmp_path / "calls.csv.rejects.csv").read_text().splitlines()
    assert written[0] == "file,line,reason,text"
    assert written[1].startswith("calls.csv,5,")
    assert written[1].endswith(',"d,yesterday,gpt-4.1,1,1"')
    assert "number without signs between its thousands" in written[2]
    assert "calls.csv.rejects-2.csv" in router("generic", "calls.csv", *COLUMNS, "-z", "UTC")[2]
    code, _, err = router("generic", "calls.csv", *COLUMNS, "--rejects", "calls.csv.rejects.csv")
    assert (code, "is there already" in err) == (2, True)
    assert (tmp_path / "calls.csv.rejects.csv").read_text().splitlines() == written


def test_thousands_that_are_stated_are_read(router: Run, tmp_path: Path) -> None:
    head = "started,model,input_tokens,output_tokens"
    for number, (sign, text) in enumerate({"comma": '"1,000"', "dot": "1.000", "space": "1 000"}.items()):
        name = f"{sign}.csv"
        (tmp_path / name).write_text(f"{head}\n2026-10-01T00:00:0{number}Z,gpt-4.1,{text},7\n")
        assert router("generic", name, "--dry-run")[0] == 1
        code, out, _ = router("generic", name, "--dry-run", "--thousands", sign)
        assert (code, "; 1,000 input and 7 output tokens;" in out) == (0, True)


def test_a_file_that_is_refused_leaves_the_others_out_too(router: Run, tmp_path: Path) -> None:
    (tmp_path / "cut.csv").write_text(f'{CSV}d,"2026')
    code, out, err = router("generic", "calls.csv", "cut.csv", *COLUMNS)
    assert (code, out) == (2, "")
    assert err.startswith("error: file cut.csv: the row that begins in line 5 is not CSV: unexpected end of data")
    assert not (tmp_path / "ledger.db").exists()


def test_every_line_rejected_is_an_error(router: Run, tmp_path: Path) -> None:
    (tmp_path / "calls.csv").write_text("started,model\nyesterday,gpt-4.1\n")
    code, _, err = router("generic", "calls.csv")
    assert code == 1
    assert "error: file calls.csv: all 1 lines were rejected; line 2: started is 'yesterday'" in err
    assert (tmp_path / "calls.csv.rejects.csv").read_text().count("\n") == 2


def test_a_file_of_another_format_names_it(router: Run, tmp_path: Path) -> None:
    usage = {"object": "page", "data": [{"object": "bucket", "start_time": 1, "end_time": 2, "results": []}]}
    (tmp_path / "usage.json").write_text(json.dumps(usage))
    code, _, err = router("anthropic", "usage.json")
    assert code == 2
    assert "hint: it looks like router import openai\n" in err
    code, _, err = router("openai", "calls.csv")
    assert (code, "any other table: router import generic" in err) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("generic", "absent.csv"), "file absent.csv: cannot be read: No such file"),
        (("generic", "calls.csv"), "no column for started; state it: --column started=COLUMN"),
        (("generic", "calls.csv", "--column", "started"), "--column: 'started' is not allowed; NAME=VALUE is"),
        (("generic", "calls.csv", "--model-map", "absent.toml"), "--model-map: 'absent.toml' cannot be read"),
        (("generic", "calls.csv", "-z", "Mars/Olympus"), "Mars/Olympus"),
        (("generic", "postgresql://me:secret@host/db"), r"source generic: postgresql://me:***@host/db is a URL"),
        (("generic", "calls.csv", "--encoding", "klingon"), "--encoding: 'klingon' does not exist"),
        (("generic", "calls.csv", *COLUMNS, "--list", "opanai"), "'opanai' does not exist; did you mean openai?"),
        (("undo", "calls.csv"), "import: 'calls.csv' is not on record"),
    ],
)
def test_what_is_wrong_is_one_line_with_a_hint(router: Run, arguments: tuple[str, ...], message: str) -> None:
    code, out, err = router(*arguments)
    assert code in {1, 2}
    assert out == ""
    first, second = err.splitlines()
    assert message in first
    assert second.startswith("hint: ")
    assert "secret" not in err


def test_an_endpoint_of_the_settings_brings_its_list_and_terms(router: Run, tmp_path: Path) -> None:
    (tmp_path / "router.toml").write_text(
        '[endpoints.mine]\nbase_url = "http://127.0.0.1:9/v1"\nprice_list = "openai"\ndiscount_share = "0.5"\n'
    )
    assert router("generic", "calls.csv", *COLUMNS, "--endpoint", "mine")[0] == 0
    with open_ledger(f"sqlite:///{tmp_path / 'ledger.db'}") as ledger:
        groups = ledger.reader.usage_groups(*ALL, ("endpoint", "price_list"))
        [group] = groups
    assert group.key == ("mine", "openai")
    assert (group.sums["cost_micro"], group.sums["settled_micro"]) == (6_800, 3_400)


def test_a_packed_file_is_read_and_an_import_taken_back(router: Run, tmp_path: Path) -> None:
    (tmp_path / "calls.csv.gz").write_bytes(gzip.compress(CSV.encode()))
    assert router("generic", "calls.csv.gz", *COLUMNS, "--tenant", "red")[0] == 0
    code, out, _ = router("list")
    assert (code, out[36:]) == (0, "  generic  calls.csv.gz: 3 rows, 2026-10-01 to 2026-10-02\n")
    [listed] = json.loads(router("list", "--format", "json")[1])
    assert (listed["import_id"], listed["rows"]) == (out[:36], 3)
    code, _, err = router("generic", "calls.csv.gz", *COLUMNS)
    assert (code, "was imported already, as calls.csv.gz, with other options" in err) == (2, True)
    assert "nothing changed (dry run)" in router("undo", "calls.csv.gz", "--dry-run")[1]
    assert router("undo", "calls.csv.gz") == (0, "calls.csv.gz: 3 rows taken back\n", "")
    assert router("list")[1] == "no import is on record\n"
    assert router("generic", "calls.csv.gz", *COLUMNS)[1].startswith("3 requests: 3 added")


def test_a_file_without_a_column_of_tokens_has_an_unknown_cost_and_not_0(router: Run, tmp_path: Path) -> None:
    (tmp_path / "usage.csv").write_text("started,model,prompt_tokens\n2026-10-01T00:00:00Z,gpt-4.1,1000\n")
    code, out, _ = router("generic", "usage.csv")
    assert code == 0
    assert "list cost – (1 unpriced); 1 rows without usage" in out


def test_tokens_of_which_one_column_is_not_found_are_said_to_be_missing(router: Run, tmp_path: Path) -> None:
    (tmp_path / "usage.csv").write_text("started,model,input_tokens,completion\n2026-10-01T00:00:00Z,gpt-4.1,1000,9\n")
    code, out, err = router("generic", "usage.csv")
    assert (code, "list cost USD 0.002;" in out) == (0, True)
    assert err == "warning: no row has output tokens; a column of another name is --column output_tokens=COLUMN\n"
    code, _, err = router("generic", "usage.csv", "--column", "output_tokens=completion", "--dry-run")
    assert (code, err) == (0, "")


@pytest.mark.parametrize("name", ["gpt\n-4", "\x1b[31mgpt", "\u202egpt", "\x9bgpt", "x" * 5_000, "a b;$(id)"])
def test_a_name_of_the_file_is_shown_on_one_line_that_no_terminal_acts_on(
    router: Run, tmp_path: Path, name: str
) -> None:
    row = json.dumps({"started": "2026-10-01T00:00:00Z", "model": name, "input_tokens": 1, "output_tokens": 1})
    (tmp_path / "odd.jsonl").write_text(row + "\n")
    code, _, err = router("generic", "odd.jsonl")
    (line,) = err.splitlines()
    assert code == 0
    assert line.isprintable()
    assert len(line) < 400
    assert "$(id)" not in line or "--model-map 'a b;$(id)=MODEL'" in line  # to be copied into a shell


@pytest.mark.parametrize("arguments", [("generic", "calls.csv", *COLUMNS), ("trace", "t.jsonl", "--model", "gpt-4.1")])
def test_a_price_list_that_does_not_exist_is_wrong_usage(router: Run, arguments: tuple[str, ...]) -> None:
    code, out, err = router(*arguments, "--list", "nolist")
    assert (code, out) == (2, "")
    assert err.startswith("error: price list: 'nolist' does not exist\nhint: price lists that exist: ")
