"""The debugger's prompt: what each command does, from a terminal, a pipe or a file."""

from __future__ import annotations

import cmd
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from atalla.cli import one_line, print_table, say
from atalla.cli._tiles import print_counters, print_events, print_tile, print_watch
from atalla.errors import AtallaError
from atalla.isa import Op

if TYPE_CHECKING:
    from atalla.run.debugger import Debugger, Difference

MOST_LINES = 40
"""So many lines of a tensor or a list are shown."""


class Prompt(cmd.Cmd):
    """Commands on a run of the device."""

    prompt = "(atalla) "
    doc_header = "Commands; 'help COMMAND' says more:"

    def __init__(self, debugger: Debugger, name: str) -> None:
        super().__init__()
        self._debugger, self._tile = debugger, 0
        self._numbers: set[int] = set()
        self._operations: set[str] = set()
        self._compares = False
        hardware = debugger.simulation.hardware
        say(f"{name}: {debugger.count} instructions on {hardware.name}, simulated, arithmetic of {debugger.isa}")

    def use(self, given: Iterable[str] | None) -> None:
        """Do what lines say, or standard input where there are none, until one says ``quit`` or they end."""
        self._show_place()
        lines = sys.stdin if given is None else given
        if given is None and sys.stdin.isatty():
            try:
                self.cmdloop()
            except KeyboardInterrupt:
                print()
            return
        for line in lines:
            text = line.strip()
            if not text or text.startswith("#"):
                continue
            say(f"{self.prompt}{text}")
            if self.onecmd(text):
                return

    def onecmd(self, line: str) -> bool:
        """Do one command; what is wrong with it is one line."""
        try:
            return super().onecmd(line)
        except AtallaError as error:
            say(one_line(error))
        except ValueError:
            say(f"'{line}' has an argument of another kind: see 'help {line.split(maxsplit=1)[0]}'")
        return False

    def emptyline(self) -> bool:
        """Do nothing."""
        return False

    def default(self, line: str) -> None:
        """Say that there is no such command."""
        if line == "EOF":
            print()
            return
        say(f"there is no command '{line.split(maxsplit=1)[0]}': 'help' lists them")

    def postcmd(self, stop: bool, line: str) -> bool:
        """Stop at the end of what is typed, too."""
        return stop or line == "EOF"

    def do_step(self, text: str) -> None:
        """Usage: step [N | tile]: run the next instruction, or N; with 'tile' show the next tile of the one to come."""
        if text == "tile":
            self._step_tile()
            return
        count = int(text) if text else 1
        self._go(min(self._debugger.position + count, self._debugger.count))

    def do_run(self, _text: str) -> None:
        """Usage: run: go on until a breakpoint, or to the end."""
        debugger = self._debugger
        stops = [
            number
            for number in range(debugger.position + 1, debugger.count)
            if number in self._numbers or debugger.listing.instructions[number].op.name in self._operations
        ]
        self._go(min(stops, default=debugger.count))

    def do_goto(self, text: str) -> None:
        """Usage: goto N: to before instruction N, also backwards: the program runs again from its beginning."""
        self._go(self._number(text))

    def do_break(self, text: str) -> None:
        """Usage: break [N | OP | mismatch]: 'run' stops there; alone, list them.

        Before instruction N, before each of an operation, or behind the first instruction whose result is wrong.
        """
        if text and not self.set_break(text):
            say(
                f"'{text}' is no instruction's number (0 to {self._debugger.count - 1}), no operation, and not mismatch"
            )
            return
        names = [str(one) for one in sorted(self._numbers)] + sorted(self._operations)
        names += ["mismatch"] if self._compares else []
        say(f"stops at: {', '.join(names) or 'nothing'}")

    def set_break(self, text: str) -> bool:
        """Add a breakpoint; whether it is one."""
        if text == "mismatch":
            self._compares = True
        elif text.isdecimal() and int(text) < self._debugger.count:
            self._numbers.add(int(text))
        elif text.upper() in Op.__members__:
            self._operations.add(text.upper())
        else:
            return False
        return True

    def do_clear(self, _text: str) -> None:
        """Usage: clear: forget all breakpoints."""
        self._numbers, self._operations, self._compares = set(), set(), False

    def do_where(self, text: str) -> None:
        """Usage: where [N]: the instruction that comes, or N: its node, its line of Python, its tensors."""
        number = self._chosen(text)
        row, debugger = self._debugger.listing.instructions[number], self._debugger
        say(f"#{number} {debugger.simulation.instructions[number].operation}")
        say(f"  node {row.node or 'unknown'}")
        say(f"  from {row.line or 'unknown'}")
        rows = [("  writes", *self._tensor_row(one)) for one in debugger.written(number)]
        rows += [("  reads", *self._tensor_row(one)) for one in row.sources if one is not None]
        print_table(rows)

    def do_tensor(self, text: str) -> None:
        """Usage: tensor N [SLICE]: what tensor N, or one of that name, holds now; tensor 5 0,:,2:4."""
        import torch

        name, _, rest = text.partition(" ")
        names = {row.name: i for i, row in enumerate(self._debugger.listing.tensors) if row.name}
        number = int(name) if name.isdecimal() else names.get(name, -1)
        held = self._debugger.tensor(number)
        if rest.strip():
            try:
                held = held[_slices(rest)]
            except IndexError as error:
                say(one_line(error))
                return
        say(f"tensor {number} {' '.join(self._tensor_row(number)[1:])}")
        with torch.no_grad():
            lines = str(held.clone()).splitlines()
        for line in lines[:MOST_LINES]:
            say(f"  {line}")

    def do_tile(self, text: str) -> None:
        """Usage: tile [N]: the micro-operations of the tile that comes, or of tile N, and their regions."""
        number = int(text) if text else self._tile
        print_tile(self._debugger.simulation, self._chosen(""), number)

    def do_watch(self, text: str) -> None:
        """Usage: watch OFFSET [0 | 1]: what lies at a byte of the scratchpads, and when, in the next instruction."""
        offset, _, scratchpad = text.partition(" ")
        chosen = int(scratchpad) if scratchpad else None
        print_watch(self._debugger.simulation, self._chosen(""), int(offset, 0), chosen)

    def do_events(self, text: str) -> None:
        """Usage: events [N]: the micro-operations of the instruction that comes, or of N."""
        print_events(self._debugger.simulation, self._chosen(text))

    def do_counters(self, text: str) -> None:
        """Usage: counters [N]: cycles, bytes and stalls of the instruction that comes, or of N."""
        print_counters(self._debugger.simulation, self._chosen(text))

    def do_quit(self, _text: str) -> bool:
        """Usage: quit: end."""
        return True

    def _go(self, position: int) -> None:
        debugger, self._tile = self._debugger, 0
        found = debugger.go(position, compare=self._compares)
        if found is not None:
            self._show_difference(found)
        self._show_place()

    def _step_tile(self) -> None:
        """Show the tile that comes; behind the last the instruction is done."""
        debugger = self._debugger
        number = self._chosen("")
        if debugger.position < debugger.count and self._tile < debugger.simulation.instructions[number].tiles:
            print_tile(debugger.simulation, number, self._tile)
            self._tile += 1
            return
        self._go(min(debugger.position + 1, debugger.count))

    def _show_difference(self, found: Difference) -> None:
        right = "the kernels" if self._debugger.against == "fast" else "the reference"
        say(f"mismatch behind instruction {found.instruction}: tensor {found.tensor} differs from {right} in ", end="")
        say(f"{found.count:,} of {found.elements:,} elements")
        say(f"  first at {list(found.index)}: {found.found!r} ({found.found_bits}) on the device, ", end="")
        say(f"{found.wanted!r} ({found.wanted_bits}) is right")
        self.do_where(str(found.instruction))

    def _show_place(self) -> None:
        debugger = self._debugger
        if debugger.position >= debugger.count:
            say(f"at the end: cycle {debugger.simulation.cycles:,}, simulated")
            return
        row = debugger.simulation.instructions[debugger.position]
        say(f"before #{row.number} {row.operation} {row.node}: cycle {row.begin:,}, simulated")

    def _chosen(self, text: str) -> int:
        """Return the instruction that is meant: the next where none is named; the last where there is no next."""
        return self._number(text) if text else max(min(self._debugger.position, self._debugger.count - 1), 0)

    def _number(self, text: str) -> int:
        number = int(text)
        if not 0 <= number < self._debugger.count:
            raise AtallaError(f"there is no instruction {number}: there are 0 to {self._debugger.count - 1}")
        return number

    def _tensor_row(self, number: int) -> tuple[str, str, str]:
        row = self._debugger.listing.tensors[number]
        shape = "×".join(map(str, row.shape)) or "scalar"
        return f"tensor {number}", f"{row.dtype.name.lower()}[{shape}]", row.name


def _slices(text: str) -> tuple[Any, ...]:
    """Return what ``0,:,2:4`` means."""
    found: list[Any] = []
    for part in text.strip().strip("[]").split(","):
        ends = [int(end) if end.strip() else None for end in part.split(":")]
        found.append(slice(*ends) if len(ends) > 1 else int(part))
    return tuple(found)
