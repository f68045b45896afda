"""Condition: what the speed of a phone depends on beside the program: heat, clock limits, battery and screen."""

from __future__ import annotations

import re
from dataclasses import dataclass

THERMAL = ("none", "light", "moderate", "severe", "critical", "emergency", "shutdown")
"""Android's names of its thermal status, by number."""
LOW_BATTERY_PERCENT = 15
"""From here down, Android turns its battery saver on."""
SCRIPT = r"""
echo "[thermal]"; dumpsys thermalservice 2>/dev/null </dev/null | grep 'Thermal Status'
echo "[battery]"; dumpsys battery 2>/dev/null </dev/null
echo "[screen]"
dumpsys display 2>/dev/null </dev/null | grep -E 'mScreenState=|mGlobalDisplayState='
dumpsys power 2>/dev/null </dev/null | grep -E 'Display Power: state=|mWakefulness='
echo "[clocks]"
for f in /sys/devices/system/cpu/cpu[0-9]*/cpufreq; do
  [ -r "$f/scaling_max_freq" ] && echo "$(cat "$f/scaling_max_freq") $(cat "$f/cpuinfo_max_freq" 2>/dev/null)"
done
exit 0
"""
"""Prints what :func:`parse_condition` reads; each part is empty where the system does not say."""
_SCREEN = re.compile(r"(?:mScreenState|mGlobalDisplayState|Display Power: state)=(\w+)")
_HOTTEST_C = 150.0


@dataclass(frozen=True)
class Condition:
    """State of a phone at one moment; None where it does not say."""

    thermal_status: int | None = None
    """0, not throttled, to 6, about to shut down: an index of :data:`THERMAL`."""
    clock_share: float | None = None
    """Highest clock that is allowed now, as a share of the processor's highest; of the core that is limited most."""
    battery_c: float | None = None
    """Temperature of the battery."""
    battery_percent: int | None = None
    plugged: bool | None = None
    """Whether it is charged."""
    screen_on: bool | None = None

    def is_throttled(self, start: Condition) -> bool:
        """Whether the system slows the processor down, or limits its clock more than at the start."""
        return (self.thermal_status or 0) >= 1 or _is_less(self.clock_share, start.clock_share)

    def is_worse(self, start: Condition) -> bool:
        """Whether it is throttled more than at the start."""
        hotter = (self.thermal_status or 0) > (start.thermal_status or 0)
        return hotter or _is_less(self.clock_share, start.clock_share)

    def __str__(self) -> str:
        """Return what is known of it in a line."""
        parts = []
        if self.thermal_status is not None:
            parts.append(f"thermal status {self.thermal_status} ({THERMAL[self.thermal_status]})")
        if self.clock_share is not None and self.clock_share < 1:
            parts.append(f"clocks limited to {self.clock_share:.0%}")
        if self.battery_percent is not None:
            charging = {True: ", charging", False: ", not charging", None: ""}[self.plugged]
            degrees = "" if self.battery_c is None else f", {self.battery_c:.1f} °C"
            parts.append(f"battery {self.battery_percent} %{degrees}{charging}")
        if self.screen_on is not None:
            parts.append(f"screen {'on' if self.screen_on else 'off'}")
        return "; ".join(parts) or "condition unknown"


def _is_less(now: float | None, then: float | None) -> bool:
    return now is not None and then is not None and now < then - 0.005


def changes(start: Condition, end: Condition) -> tuple[str, ...]:
    """Return what changed beside the heat, and a battery that is nearly empty; one line each."""
    found = []
    if start.screen_on is not None and end.screen_on is not None and start.screen_on != end.screen_on:
        found.append(f"screen: it was turned {'on' if end.screen_on else 'off'} during the launch")
    if start.plugged is not None and end.plugged is not None and start.plugged != end.plugged:
        found.append(f"charger: it was {'connected' if end.plugged else 'disconnected'} during the launch")
    if end.battery_percent is not None and end.battery_percent <= LOW_BATTERY_PERCENT and not end.plugged:
        found.append(f"battery: {end.battery_percent} % left; the battery saver may limit the processor")
    return tuple(found)


def parse_condition(text: str) -> Condition:
    """Read what :data:`SCRIPT` printed; whatever is not as expected is unknown."""
    parts: dict[str, str] = {}
    for part in re.split(r"(?m)^(?=\[\w+\]$)", text):
        head, _, body = part.partition("\n")
        parts.setdefault(head.strip("[]"), body)
    battery, screen = parts.get("battery", ""), parts.get("screen", "")
    tenths, level = _number(r"temperature", battery), _number(r"level", battery)
    scale = _number(r"scale", battery) or 100
    percent = None if level is None else round(100 * level / scale)
    degrees = None if tenths is None else tenths / 10
    status = _number("Thermal Status", parts.get("thermal", ""))
    powered = re.findall(r"(?m)^\s*\w+ powered: (true|false)\s*$", battery)
    return Condition(
        status if status is not None and 0 <= status < len(THERMAL) else None,
        _clock_share(parts.get("clocks", "")),
        degrees if degrees is not None and abs(degrees) < _HOTTEST_C else None,
        percent if percent is not None and 0 <= percent <= 100 else None,
        "true" in powered if powered else None,
        _screen_on(screen),
    )


def _number(name: str, text: str) -> int | None:
    found = re.search(rf"(?m)^\s*{name}\s*[:=]\s*(-?[0-9]{{1,9}})\s*$", text)
    return int(found[1]) if found else None


def _clock_share(text: str) -> float | None:
    rows = re.findall(r"(?m)^([0-9]{1,9}) ([0-9]{1,9})\s*$", text)
    shares = [int(now) / int(most) for now, most in rows if 0 < int(now) <= int(most)]
    return min(shares, default=None)


def _screen_on(text: str) -> bool | None:
    states = _SCREEN.findall(text)
    if states:
        return "ON" in states  # a phone may have several screens
    awake = re.search(r"mWakefulness=(\w+)", text)
    return None if awake is None else awake[1] == "Awake"
