"""The CRC of many strings at once is that of each, whatever their lengths."""

import random

from hypothesis import given
from hypothesis import strategies as st

from sojourn.backends.proof.crc32c import crc32c, crcs32c
from sojourn.formats import tfrecord

LENGTHS = [*range(40), 255, 256, 257, 511, 513, 4097, 16384, 16385, 70001]


def test_it_is_castagnolis() -> None:
    assert crc32c(b"123456789") == 0xE3069283  # RFC 3720, B.4: 32 bytes of zero and of ones
    assert crc32c(bytes(32)) == 0x8A9136AA
    assert crc32c(b"\xff" * 32) == 0x62A8AB43


def test_every_length_gives_what_the_walker_gives() -> None:
    chance = random.Random(0)
    strings = [chance.randbytes(length) for length in LENGTHS]
    want = [tfrecord.crc32c(data) for data in strings]
    assert [crc32c(data) for data in strings] == want
    begins = [sum(LENGTHS[:at]) for at in range(len(LENGTHS))]
    assert crcs32c(b"".join(strings), begins, LENGTHS) == want


def test_a_string_of_several_pieces_is_joined_rightly() -> None:
    # zlib's way of joining is tested against: CRC(a + b) = CRC of what the pieces say, for a length of many rows.
    data = random.Random(1).randbytes(300_000)
    many = crcs32c(data * 2, [0, 300_000, 150_000], [300_000, 300_000, 300_000])
    assert many[0] == many[1] == tfrecord.crc32c(data)
    assert many[2] == tfrecord.crc32c(data[150_000:] + data[:150_000])
    large = random.Random(2).randbytes(1 << 20) * 9  # more than one piece of 4 MiB
    flipped = bytearray(large)
    flipped[5] ^= 1
    assert crc32c(large) != crc32c(bytes(flipped))
    assert crc32c(large + b"a") == crcs32c(b"xx" + large + b"ay", [2], [len(large) + 1])[0]


@given(st.lists(st.binary(max_size=700), min_size=1, max_size=60))
def test_any_strings_together_give_what_each_gives(strings: list[bytes]) -> None:
    begins = [sum(map(len, strings[:at])) for at in range(len(strings))]
    found = crcs32c(b"".join(strings), begins, [len(data) for data in strings])
    assert found == [tfrecord.crc32c(data) for data in strings]
