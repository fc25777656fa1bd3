"""How different two colours look, also to people who lack one kind of cones, and how they stand out from each other.

Simulation: Machado, Oliveira and Fernandes, "A Physiologically-based Model for Simulation of Color Vision
Deficiency", 2009, severity 1.0. Difference: Sharma, Wu and Dalal, "The CIEDE2000 Color-Difference Formula", 2005,
whose published pairs a test compares. Contrast: WCAG 2.1. Colours are ``#rrggbb`` in sRGB.
"""

from __future__ import annotations

from math import atan2, cos, degrees, exp, hypot, radians, sin, sqrt

Triple = tuple[float, float, float]
_Matrix = tuple[Triple, Triple, Triple]

DEFICIENCIES: dict[str, _Matrix] = {
    "none": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.01182, 0.04294, 0.968881)),
    "tritanopia": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.3039)),
}
_XYZ: _Matrix = (
    (0.4124564, 0.3575761, 0.1804375),
    (0.2126729, 0.7151522, 0.072175),
    (0.0193339, 0.119192, 0.9503041),
)


def seen_difference(one: str, other: str, deficiency: str) -> float:
    """In CIEDE2000, of which 1 can just be seen side by side."""
    return ciede2000(_lab(one, deficiency), _lab(other, deficiency))


def contrast(one: str, other: str) -> float:
    lighter, darker = sorted((_times(_XYZ, _linear(each))[1] for each in (one, other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def ciede2000(one: Triple, other: Triple) -> float:
    """Of two colours in CIELAB; the names are those of the paper."""
    (l1, a1, b1), (l2, a2, b2) = one, other
    g = 0.5 * (1 - _saturated((hypot(a1, b1) + hypot(a2, b2)) / 2))
    c1, c2 = hypot((1 + g) * a1, b1), hypot((1 + g) * a2, b2)
    h1, h2 = (degrees(atan2(b, (1 + g) * a)) % 360 for a, b in ((a1, b1), (a2, b2)))
    turned = (h2 - h1 + 180) % 360 - 180 if c1 * c2 else 0.0
    dl, dc, dh = l2 - l1, c2 - c1, 2 * sqrt(c1 * c2) * sin(radians(turned / 2))
    l, c = (l1 + l2) / 2, (c1 + c2) / 2  # noqa: E741
    h = (h1 + turned / 2) % 360 if c1 * c2 else h1 + h2
    waves = ((-0.17, 1, -30), (0.24, 2, 0), (0.32, 3, 6), (-0.20, 4, -63))
    t = 1 + sum(factor * cos(radians(times * h + shift)) for factor, times, shift in waves)
    dl /= 1 + 0.015 * (l - 50) ** 2 / sqrt(20 + (l - 50) ** 2)
    dc /= 1 + 0.045 * c
    dh /= 1 + 0.015 * c * t
    rotated = -2 * _saturated(c) * sin(radians(60 * exp(-(((h - 275) / 25) ** 2))))
    return sqrt(dl**2 + dc**2 + dh**2 + rotated * dc * dh)


def _saturated(chroma: float) -> float:
    return sqrt(chroma**7 / (chroma**7 + 25**7))


def _lab(colour: str, deficiency: str) -> Triple:
    seen = _times(DEFICIENCIES[deficiency], _linear(colour))
    white = _times(_XYZ, (1, 1, 1))
    xyz = _times(_XYZ, [min(max(each, 0.0), 1.0) for each in seen])
    x, y, z = (_root(part / whole) for part, whole in zip(xyz, white, strict=True))
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def _root(part: float) -> float:
    return part ** (1 / 3) if part > (6 / 29) ** 3 else part / 3 * (29 / 6) ** 2 + 4 / 29


def _linear(colour: str) -> list[float]:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    return [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]


def _times(matrix: _Matrix, vector: list[float] | Triple) -> list[float]:
    return [sum(factor * part for factor, part in zip(row, vector, strict=True)) for row in matrix]
