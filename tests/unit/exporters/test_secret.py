import pickle
import traceback

import pytest

from exporters.secret import Secret

TEXT = "k-4711-very-secret"


def test_a_secret_shows_itself_only_when_asked() -> None:
    secret = Secret(TEXT)
    shown = [
        repr(secret),
        str(secret),
        f"{secret}",
        f"{secret!r:>20}",
        f"{secret:>20}",
        f"{secret}",
        repr({"k": secret}),
    ]
    assert not any(TEXT in text for text in shown)
    assert secret.reveal() == TEXT


def test_a_secret_cannot_be_written_to_a_pickle() -> None:
    with pytest.raises(TypeError) as caught:
        pickle.dumps(Secret(TEXT))
    assert TEXT not in "".join(traceback.format_exception(caught.value))


def test_secrets_are_equal_by_their_text() -> None:
    assert Secret(TEXT) == Secret(TEXT)
    assert Secret(TEXT) != Secret("other")
    assert Secret(TEXT) != TEXT
    assert len({Secret(TEXT), Secret(TEXT)}) == 1
    assert not Secret("")
