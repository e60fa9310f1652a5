"""Values of a JSON text are counted before it is parsed, those in its texts not."""

import random

import orjson
import pytest

from gateway.common.contract.errors import TooLarge
from gateway.read import json_size
from gateway.read.json_size import check_json, has_more_values
from gateway.read.limits import ParseLimits


@pytest.mark.parametrize(
    ("text", "values"),
    [
        (b'{"a":[1,2,3],"b":{}}', 6),
        (b'"' + b"[{," * 50 + b'"', 0),
        (b'["' + rb"\"[,\\" * 20 + b'",1]', 2),
        (rb'["\\",{"\\\"{":0}]', 3),
        (b'["never ends ,,,,,,,,', 1),
        (b"", 0),
    ],
)
@pytest.mark.parametrize("window", [1, 3, 1000])
def test_marks_outside_texts_are_counted(
    text: bytes, values: int, window: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_size, "WINDOW_BYTES", window)
    assert not has_more_values(text, values)
    assert not values or has_more_values(text, values - 1)


def test_no_document_of_any_kind_is_counted_too_low(chance: random.Random) -> None:

    def value(depth: int) -> object:
        kind = chance.randrange(4 if depth else 2)
        if kind == 0:
            return "".join(chance.choices('"\\,[{]}ax\n', k=5))
        if kind == 1:
            return chance.random()
        if kind == 2:
            return [value(depth - 1) for _ in range(chance.randrange(4))]
        return {f'{n}"\\': value(depth - 1) for n in range(chance.randrange(4))}

    def marks(found: object) -> int:
        inside = found.values() if isinstance(found, dict) else found if isinstance(found, list) else None
        return 0 if inside is None else 1 + max(0, len(inside) - 1) + sum(map(marks, inside))

    for _ in range(500):
        made = [value(4), value(4)]
        wanted = marks(made)
        assert not has_more_values(orjson.dumps(made), wanted)
        assert has_more_values(orjson.dumps(made), wanted - 1)


def test_the_refusal_names_the_option() -> None:
    with pytest.raises(TooLarge, match=r"raise limits\.max_json_values"):
        check_json(b"[" + b"0," * 20_000, ParseLimits(max_json_values=10_000))
