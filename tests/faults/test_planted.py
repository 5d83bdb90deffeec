"""What `tests.faults.planted` plants: each fault changes the program, and none is in a message or an annotation."""

import ast

from tests.faults.planted import Places, chosen, near

SOURCE = '''
"""Not 1 of these."""
__all__ = ["a" + "b"]
LIMIT = 4
def f(x: Literal[3] = 0, *, y=-1.5):
    """Nor 2."""
    if x is not None and (x) <= y:
        raise ValueError(f"{x + 1} is not < {2}")
    X = 2
    return x + X if x in y else "é" * x
'''


def faults():
    return Places("m.py", SOURCE.encode()).faults


def test_every_kind_of_fault_is_planted_where_it_belongs():
    assert {f"{fault.line} {fault.before}→{fault.after}" for fault in faults()} == {
        "4 4→5",
        "5 0→1",
        "5 -→+",
        "5 1.5→3.0",
        "7 x is not None and (x) <= y→(not (x is not None and (x) <= y))",
        "7 is not→is",
        "7 and→or",
        "7 <=→<",
        "7 <=→>",
        "9 2→3",
        "10 x in y→(not (x in y))",
        "10 in→not in",
        "10 +→-",
    }
    assert [fault.named for fault in faults() if fault.named] == ["LIMIT"]


def test_each_changes_the_program_and_nothing_else():
    source = SOURCE.encode()
    for fault in faults():
        assert source[fault.start : fault.end].decode() == fault.before
        changed = source[: fault.start] + fault.after.encode() + source[fault.end :]
        assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(source))


def test_the_same_seed_chooses_the_same_faults_and_more_begin_with_them():
    few = chosen(5, 3, "src/dualflow/flows")
    assert chosen(9, 3, "src/dualflow/flows")[:5] == few
    assert chosen(5, 4, "src/dualflow/flows") != few


def test_the_nearest_tests_come_first():
    found = near("src/dualflow/core/bits.py")
    assert found[0] == "tests/core/test_bits.py"
    assert found[-1] == "tests/core"
