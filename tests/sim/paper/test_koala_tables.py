"""The worked examples of the KOALA papers, from the product (SPEC K2, K4, K5)."""

import io
import json
from pathlib import Path

import pytest

from diana.errors import UsageError
from diana.sim.main import run
from diana.sim.scenario import scenario as sc

TABLES = Path("scenarios/koala-tables.toml")


def test_the_product_prints_the_tables_of_the_papers_as_json():
    out = io.StringIO()
    assert run(TABLES, as_json=True, out=out) == 0
    told = json.loads(out.getvalue())
    assert told["claim_times"] == [1360, 1450, 1472.5, 1478.125]
    assert told["scan_order"] == ["SH", "H", "H", "L", "SL"]
    placed = {(each["idle"], each["request"], each["policy"]): each["placed"] for each in told["placements"]}
    small, das = "18/15/12", "67/20/26/28/19"
    assert placed == {
        (small, "3x8", "WF"): ["C1", "C2", "C3"],
        (small, "3x8", "CM"): ["C1", "C1", "C2"],
        (small, "flexible 24", "FCM"): ["18@C1", "6@C2"],
        (small, "flexible 45", "FCM"): ["18@C1", "15@C2", "12@C3"],
        (small, "flexible 46", "FCM"): None,
        (small, "flexible 24", "WF"): None,
        (small, "flexible 24", "CM"): None,
        (das, "4x16", "WF"): ["VU", "VU", "VU", "Utrecht"],
        (das, "4x16", "CM"): ["VU", "VU", "VU", "VU"],
        (das, "3x24", "WF"): ["VU", "VU", "Utrecht"],
        (das, "3x24", "CM"): ["VU", "VU", "Utrecht"],
        (das, "flexible 72", "FCM"): ["67@VU", "5@Utrecht"],
    }


def test_an_answer_that_is_not_the_expected_one_ends_with_exit_code_1(tmp_path, capsys):
    text = TABLES.read_text().replace('"C1", "C1", "C2"', '"C1", "C2", "C3"')
    (wrong := tmp_path / "wrong.toml").write_text(text)
    assert run(wrong, out=io.StringIO()) == 1
    doubt, wrong = capsys.readouterr().err.splitlines()
    assert doubt == "diana: gangs.scan: n1 = 1 is below n2 = 2, where the paper asks for at least as many"
    assert wrong == "CM 3x8 on 18/15/12: C1, C1, C2, and C1, C2, C3 is expected"


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ('sites = { A = 1 }\nrequest = "3by8"\npolicy = "WF"', "want COUNTxPROCESSORS"),
        ('sites = { A = 1 }\nrequest = "3x0"\npolicy = "WF"', "0 processors: want 1 to"),
        ('sites = { A = 1 }\nrequest = "9999x1"\npolicy = "WF"', "count = 9999: want 1 to 1,000"),
        ('sites = { A = 1 }\nrequest = "flexible many"\npolicy = "WF"', "want a number of processors"),
        ('sites = { A = -1 }\nrequest = "1x1"\npolicy = "WF"', "A = -1: want 0 to"),
        ('sites = {}\nrequest = "1x1"\npolicy = "WF"', "name at least one"),
        ('sites = { A = 1 }\nrequest = "1x1"\npolicy = "FMC"', "'FMC' is not known; did you mean 'FCM'?"),
    ],
)
def test_a_wrong_question_is_refused_in_one_line(line, told):
    with pytest.raises(UsageError) as refused:
        sc.parse(f"version = 1\n[[gangs.placements]]\n{line}\n")
    assert told in str(refused.value) and "gangs.placements[0]" in str(refused.value)


def test_questions_stand_alone():
    with pytest.raises(UsageError, match="leave out sites"):
        sc.parse('version = 1\n[[sites]]\nname = "a"\n[gangs.scan]\n')
