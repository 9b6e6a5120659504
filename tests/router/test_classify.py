"""Classification: requests written by hand in seven languages, laws, and public prompts with known classes."""

from __future__ import annotations

import time
import tomllib
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.classify import TASK_CLASSES, classify

REQUESTS: list[tuple[str | None, str]] = [
    ("extract", "Extract all email addresses from the text below."),
    ("extract", "List all the dates mentioned in this contract."),
    ("extract", "Extrahiere alle Rechnungsnummern aus dem folgenden Text."),
    ("extract", "次の文章から人名をすべて抽出してください。"),
    ("extract", "从下面的文本中提取所有日期。"),
    ("extract", "Extrais les noms de personnes du texte suivant."),
    ("extract", "Extrae los nombres de las empresas del texto."),
    ("extract", "Read the invoice and return JSON with the keys date, total and vendor."),
    ("classify", "Classify the sentiment of this review as positive or negative: great phone!"),
    ("classify", "Is this email spam or not spam?"),
    ("classify", "Klassifiziere die folgende Anfrage in eine der Kategorien."),
    ("classify", "このレビューを分類してください。"),
    ("classify", "请把下面的评论分类为正面或负面。"),
    ("classify", "Classe ce commentaire comme positif ou négatif."),
    ("classify", "Assign one of the following labels to each ticket."),
    ("summarize", "Summarize the following article in three sentences."),
    ("summarize", "TL;DR of this thread please"),
    ("summarize", "Fasse den folgenden Text zusammen."),
    ("summarize", "次の記事を要約してください。"),
    ("summarize", "请总结以下文章。"),
    ("summarize", "Résume cet article en cinq lignes."),
    ("summarize", "Resume este artículo en tres frases."),
    ("summarize", "Write a summary of this meeting transcript."),
    ("summarize", "Can you give me a summary of the report below?"),
    ("translate", "Translate this sentence into French: I like tea."),
    ("translate", "How do you say 'good night' in Japanese?"),
    ("translate", "Übersetze den folgenden Text ins Englische."),
    ("translate", "この文を英語に翻訳してください。"),
    ("translate", "把这句话翻译成英文。"),
    ("translate", "Traduis ce texte en anglais."),
    ("translate", "Traduce al inglés el siguiente párrafo."),
    ("write", "Write a poem about autumn."),
    ("write", "Draft an email to my landlord asking for a repair."),
    ("write", "Schreibe einen Brief an meine Tante."),
    ("write", "新製品の紹介についてエッセイを書いてください。"),
    ("write", "写一篇关于春天的作文。"),
    ("write", "Écris un poème sur la mer."),
    ("write", "Escribe un cuento sobre un dragón."),
    ("write", "Rewrite this paragraph to sound more formal."),
    ("write", "Compose a short story in the style of Chekhov"),
    ("code", "Write a Python function that reverses a linked list."),
    ("code", "Why does this code throw a NullPointerException?"),
    ("code", "Schreibe eine Funktion, die zwei Zahlen addiert."),
    ("code", "Pythonで素数を求める関数を実装してください。"),
    ("code", "写一个函数来反转字符串。"),
    ("code", "Écris une fonction Python qui trie une liste."),
    ("code", "Refactor this class to use dataclasses."),
    ("code", "Create a SQL query that joins orders and customers."),
    ("code", "fix this: TypeError: 'NoneType' object is not subscriptable"),
    ("math", "Calculate the integral of x^2 from 0 to 3."),
    ("math", "Solve for x: 3x + 5 = 20"),
    ("math", "Berechne die Fläche eines Kreises mit Radius 3."),
    ("math", "2次方程式 x^2-5x+6=0 を解き、計算過程を示せ。"),
    ("math", "计算 12 乘以 34 的结果。"),
    ("math", "Tom has 5 apples and buys 7 more. How many apples does he have?"),
    ("math", "Calcule la dérivée de x^3."),
    ("reason", "Which of the following best explains inflation?\nA. taxes\nB. money supply\nC. weather\nD. none"),
    ("reason", "If all cats are mammals and some mammals are black, must some cats be black? Deduce the answer."),
    ("reason", "Solve this logic puzzle: Anna sits left of Ben."),
    ("research", "Research the market for electric bikes in Europe, with sources."),
    ("research", "Compare the pros and cons of the three leading vector databases."),
    ("research", "Vergleiche die Angebote mit Quellen."),
    ("research", "電気自動車市場について調査してください。"),
    ("research", "调研一下中国的新能源市场。"),
    ("research", "Write a literature review on sleep and memory."),
    ("chat", "Hello, how are you today?"),
    ("chat", "Who wrote Hamlet?"),
    ("chat", "what is the capital of france"),
    ("chat", "こんにちは"),
    ("chat", "你好"),
    ("chat", "Hallo, wie geht es dir?"),
    ("chat", "Bonjour, ça va ?"),
    ("plan", "Plan a three-day trip to Kyoto."),
    ("plan", "Break down this project into subtasks."),
    ("plan", "Create a project plan for migrating our database."),
    ("plan", "旅行の計画を立ててください。"),
    ("plan", "制定一个学习计划。"),
    ("plan", "Make a study plan for the exam."),
    ("plan", "Erstelle einen Zeitplan für den Umzug."),
    ("merge", "Merge the following partial answers into one answer."),
    ("merge", "Combine these three drafts into a single document."),
    ("merge", "以下の回答を一つに統合してください。"),
    ("merge", "把下面的部分答案合并成一个。"),
    ("merge", "Fusionne les réponses suivantes en une seule réponse."),
    (None, ""),
    (None, "asdf qwer"),
    (None, "The weather was mild and the streets were quiet that evening, as they always were."),
    (None, "ok"),
]

MMLU_MATH = {
    "abstract_algebra",
    "college_mathematics",
    "elementary_mathematics",
    "high_school_mathematics",
    "high_school_statistics",
}
OF_DATASET = {
    "gsm8k": "math",
    "agentverse-mgsm": "math",
    "math": "math",
    "human_eval": "code",
    "mbpp": "code",
    "agentverse-logicgrid": "reason",
    "natural_qa": "chat",
    "trivia_qa": "chat",
    "gpqa": "reason",
}
OF_MT_BENCH = {
    "writing": "write",
    "math": "math",
    "coding": "code",
    "extraction": "extract",
    "reasoning": "reason",
}


@pytest.mark.parametrize(("task_class", "text"), REQUESTS)
def test_requests(task_class: str | None, text: str) -> None:
    assert classify(text).task_class == task_class


def test_every_class_has_requests_and_one_line() -> None:
    assert {task_class for task_class, _ in REQUESTS if task_class} == set(TASK_CLASSES)
    assert len(TASK_CLASSES) == 12
    for meaning in TASK_CLASSES.values():
        assert 0 < len(meaning) <= 80
        assert "\n" not in meaning


def test_the_request_counts_and_not_what_it_is_about() -> None:
    """A long text about code, to be summarized, is a summary; the same at the end of it."""
    body = "The team shipped a parser. It was slow at first, and then it was not. " * 60
    assert classify(f"Summarize the following report.\n\n{body}").task_class == "summarize"
    assert classify(f"{body}\n\nSummarize the report above.").task_class == "summarize"


def test_what_contradicts_itself_has_no_class() -> None:
    """Four classes, each named once: none has half of the evidence."""
    found = classify("Translate. Summarize. Classify. Refactor.")
    assert found.task_class is None
    assert found.evidence


def test_evidence_is_strongest_first_and_says_what_was_seen() -> None:
    found = classify("Write a Python function that sorts a list in python")
    assert found.evidence[0] == "code: write … python"
    assert "code: in python" in found.evidence


def test_a_word_repeated_is_one_word() -> None:
    once, often = classify("Translate this."), classify("Translate this. " * 5)
    assert once.confidence_share == often.confidence_share


@given(st.text(max_size=3000))
def test_any_text_has_a_known_class_or_none(text: str) -> None:
    """Deterministic; a share in [0, 1); no evidence, no class."""
    found = classify(text)
    assert found == classify(text)
    assert found.task_class is None or found.task_class in TASK_CLASSES
    assert 0 <= found.confidence_share < 1
    assert bool(found.evidence) == (found.confidence_share > 0)


@given(st.text(max_size=200))
def test_the_middle_of_a_long_text_is_not_read(middle: str) -> None:
    head, tail = "Translate this text into French. " + "x " * 600, "y " * 400
    assert classify(head + middle + tail) == classify(head + tail)


@pytest.mark.parametrize("letter", ["\n", " ", "$", "1", "a ", "計算", "select ", "def ", "1. a\n", "a) b\n", "9 * "])
def test_a_megabyte_is_quick_whatever_it_is(letter: str) -> None:
    """1.5 ms is the aim; the test allows 50 for a busy machine, and would catch anything that grows with the square."""
    text = (letter * 1_000_000)[:1_000_000]
    classify(text)
    started = time.perf_counter()
    classify(text)
    assert time.perf_counter() - started < 0.05


def test_the_word_lists_name_known_classes_in_lower_case() -> None:
    document = tomllib.loads(files("router").joinpath("data", "keywords.toml").read_text(encoding="utf-8"))
    for section in ("things", "lead", "anywhere", "unspaced"):
        assert set(document[section]) <= set(TASK_CLASSES)
        for words in document[section].values():
            assert all(word == word.lower() and word.strip() == word != "" for word in words)


def test_floor_on_public_prompts(shared: Path) -> None:
    """Per data set, the least share of prompts with the right class; docs/task-classes.md has what was measured."""
    parquet = import_module("pyarrow.parquet")
    rows = parquet.read_table(shared / "data/routing/prompts.parquet").to_pylist()
    right: dict[str, list[bool]] = {}
    for row in rows:
        expected = _expected(row)
        if expected is not None:
            name = f"mmlu {expected}" if row["dataset"] == "mmlu" else row["dataset"]
            right.setdefault(name, []).append(classify(row["prompt"]).task_class == expected)
    shares = {name: sum(marks) / len(marks) for name, marks in right.items()}
    floors = {
        "gsm8k": 0.95,
        "agentverse-mgsm": 0.98,
        "math": 0.90,
        "human_eval": 0.85,
        "mbpp": 0.98,
        "agentverse-logicgrid": 0.80,
        "natural_qa": 0.85,
        "trivia_qa": 0.90,
        "mmlu reason": 0.95,
        "mt_bench": 0.65,
    }
    assert {name: shares[name] for name, floor in floors.items() if shares[name] < floor} == {}


def _expected(row: dict[str, Any]) -> str | None:
    """Return the class that a prompt's data set stands for, or None where it is not clear."""
    if row["dataset"] == "mmlu":
        return "math" if row["klass"] in MMLU_MATH else "reason"
    return OF_MT_BENCH.get(row["klass"]) if row["dataset"] == "mt_bench" else OF_DATASET.get(row["dataset"])


_FRAGMENTS = (
    *("Error: ", "ValueError: x", "Traceback (most recent", "segmentation fault", "```", "how many", "what is the"),
    *("What's the price", "5", "2019", "$5", "12.5%", "3 + 4", "4 - 3", "x = 2", "\\frac", "$a$", "2×3", "2 ÷ 3"),
    *("\u017fegmentation fault", "\u212aelvin", "please", "write", "poem", "日本", "the", "1^2", ". ", "?", "\n", " "),
)


@given(st.lists(st.sampled_from(_FRAGMENTS), max_size=12).map("".join))
def test_law_a_pattern_is_never_spared_where_it_would_match(text: str) -> None:
    """What a pattern cannot do without is looked for first, and ASCII is read by a pattern of its own."""
    of = vars(import_module("router.classify"))
    assert not of["_ERROR"].search(text) or of["_may_have"](text, of["_ERROR_WORDS"])
    assert not of["_HOW_MANY"].search(text) or of["_may_have"](text, of["_HOW_MANY_WORDS"])
    assert not of["_FORMULA"].search(text) or any(sign in text for sign in of["_FORMULA_SIGNS"])
    assert not of["_NUMBER"].search(text) or of["_DIGIT"].search(text)
    lower = text.lower()
    assert not text.isascii() or of["_ASCII_TOKEN"].findall(lower) == of["_TOKEN"].findall(lower)
