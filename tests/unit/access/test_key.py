"""Minting, parsing, hashing and showing a secret."""

import copy
import pickle
import re
import string
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporters.secret import Secret
from gateway.access.key import display_form, keyed_hash, matches, mint, parse

BASE62 = string.digits + string.ascii_letters


def test_a_minted_key_has_the_documented_form_and_parses_to_its_id() -> None:
    key_id, secret = mint("tgk", Random(7).randbytes)
    assert re.fullmatch(r"tgk_[0-9A-Za-z]{10}_[0-9A-Za-z]{43}_[0-9A-Za-z]{6}", secret.reveal())
    assert parse("tgk", secret.reveal()) == key_id
    assert mint("tgk", Random(7).randbytes).secret == secret
    assert mint("tgk", Random(8).randbytes).secret != secret


def test_every_base62_character_comes_up_about_equally_often() -> None:
    draw = Random(1).randbytes
    text = "".join(mint("tgk", draw).secret.reveal().split("_")[2] for _ in range(2000))
    counts = [text.count(char) for char in BASE62]
    assert min(counts) > 0.85 * len(text) / 62
    assert max(counts) < 1.15 * len(text) / 62


@given(st.integers(min_value=0, max_value=60), st.sampled_from(BASE62))
def test_one_wrong_character_fails_the_crc_before_any_look_up(position: int, char: str) -> None:
    text = mint("tgk", Random(3).randbytes).secret.reveal()
    position += 4
    if text[position] in ("_", char):
        return
    assert parse("tgk", text[:position] + char + text[position + 1 :]) is None


@given(st.text())
def test_any_other_text_is_no_key(text: str) -> None:
    assert parse("tgk", text) is None


def test_another_prefix_a_scheme_word_or_a_line_end_is_no_key() -> None:
    text = mint("csk", Random(3).randbytes).secret.reveal()
    assert parse("csk", text) is not None
    assert parse("tgk", text) is None
    assert parse("csk", f"Bearer {text}") is None
    assert parse("csk", f"{text}\n") is None


def test_the_hash_needs_the_pepper_and_the_whole_text() -> None:
    text = mint("tgk", Random(3).randbytes).secret.reveal()
    stored = keyed_hash(b"pepper", text)
    assert len(stored) == 32
    assert matches(b"pepper", text, stored)
    assert not matches(b"another", text, stored)
    assert not matches(b"pepper", text[:-1], stored)


def test_a_secret_shows_in_no_repr_str_format_or_pickle() -> None:
    secret = Secret("tgk_in_the_clear")
    for shown in (repr(secret), str(secret), f"{secret}", f"{secret:>40}", f"{secret!r}", repr([secret])):
        assert "clear" not in shown
    with pytest.raises(TypeError):
        pickle.dumps(secret)
    assert copy.deepcopy({"key": secret})["key"] is secret
    assert secret.reveal() == "tgk_in_the_clear"
    assert secret == Secret("tgk_in_the_clear") != Secret("other")


def test_the_display_form_holds_no_character_of_the_secret_part() -> None:
    key_id, secret = mint("tgk", Random(3).randbytes)
    text = secret.reveal()
    assert display_form(secret) == f"tgk_{key_id}_…{text[-4:]}"
    assert len(text.rsplit("_", 1)[1]) == 6
