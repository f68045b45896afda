"""Sections: what stands in a study's page, in the order in which it is read."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from cross_backend.instruments.cold_start import TABLE as COLD_START
from cross_backend.instruments.energy import ENERGY
from cross_backend.instruments.instrument import Metrics
from cross_backend.instruments.memory import MEMORY
from cross_backend.instruments.open_loop import OPEN_LOOP
from cross_backend.instruments.throughput import THROUGHPUT
from cross_backend.records import StudyResults
from cross_backend.report import circumstances, machines, study_tables
from cross_backend.report.charts import cost, latency, load
from cross_backend.report.charts.plots import Chart, for_both
from cross_backend.report.looks import Look
from cross_backend.report.tables import Table
from cross_backend.report.views import View, looks_of


@dataclass(frozen=True)
class Block:
    """What a section says about one panel, or about all."""

    label: str = ""
    key: str = ""
    """Of the panel; empty where it is about all."""
    charts: tuple[Chart, ...] = ()
    tables: tuple[Table, ...] = ()

    @property
    def wide(self) -> bool:
        """Whether it needs the whole width."""
        return bool(self.tables) or len(self.charts) != 1


@dataclass(frozen=True)
class Section:
    """One chapter of the page."""

    key: str
    title: str
    lead: str
    """What question it answers, and how to read it."""
    blocks: tuple[Block, ...]
    empty: str = ""
    """What is said where there is nothing to show."""

    @property
    def short(self) -> str:
        """Its name where there is little room."""
        return self.key.replace("-", " ").capitalize()

    @property
    def shown(self) -> list[Block]:
        """The blocks that hold something."""
        return [block for block in self.blocks if block.charts or any(table.rows for table in block.tables)]

    @property
    def drawn(self) -> bool:
        """Whether charts show what its tables hold."""
        return any(block.charts for block in self.blocks)


_Draw = Callable[[View], Sequence[Chart | None]]


def sections(results: StudyResults, views: Sequence[View]) -> list[Section]:
    """Build all chapters between the ranking and the re-analysis."""
    looks = looks_of(views)
    return [
        *_machines(results),
        *_measured(views, looks),
        *_instruments(views, looks),
        *_circumstances(results, views),
    ]


def _machines(results: StudyResults) -> list[Section]:
    """Return the chapter of a study that several machines measured; none of another."""
    if len(results.places) < 2:
        return []
    shown = (machines.by_machine(results.panels), machines.differences(results.panels), machines.machines(results))
    lead = "The fastest verified target of each panel on each machine, and what changes between machines."
    return [Section("by-machine", "Results by machine", lead, (Block(tables=shown),))]


def _measured(views: Sequence[View], looks: Mapping[str, Look]) -> list[Section]:
    return [
        Section(
            "latency",
            "Latency distributions",
            "An average hides how a target behaves; here is every call.",
            _blocks(views, lambda view: [*latency.ecdfs(view, looks), latency.boxes(view, looks)]),
            "No latency was measured.",
        ),
        Section(
            "ratio",
            "Ratio to the fastest",
            "How many times the fastest one's latency each target takes. An interval that holds 1 shows no difference.",
            _blocks(views, lambda view: [latency.ratios(view, looks)]),
            "This needs two targets that were measured in at least six common rounds.",
        ),
        Section(
            "batch",
            "Batch scaling",
            "Latency and throughput by batch size.",
            (Block(charts=for_both(lambda: load.batches(views, looks))),),
            "Every workload was measured with one batch size only.",
        ),
        Section(
            "frontier",
            "Accuracy against latency",
            "The accuracy that a faster target costs: the workload's task metric where it has one, else the signal to "
            "quantisation noise ratio (SQNR) of the outputs against the reference.",
            _blocks(views, lambda view: [cost.frontier(view, looks)]),
            "No verified target was measured.",
        ),
    ]


def _instruments(views: Sequence[View], looks: Mapping[str, Look]) -> list[Section]:
    def tables(metrics: Metrics, title: str = "") -> Block:
        table = study_tables.instrument(views, metrics, title or f"{metrics.title}, all targets")
        return Block(tables=(table,) if table else ())

    (open_loop,) = OPEN_LOOP.tables

    return [
        Section(
            "cold-start",
            "Cold start",
            "From no process at all to the first result, in fresh processes.",
            (
                *_blocks(views, lambda view: [cost.cold_start(view)]),
                tables(COLD_START),
            ),
            "Cold starts were not measured in this study.",
        ),
        Section(
            "throughput",
            "Throughput and latency under load",
            "Closed loop: how many inferences a second concurrent streams get done. Open loop: how long a caller waits "
            "when calls arrive at a given rate whether or not earlier ones are done.",
            (
                *_blocks(views, lambda view: [*load.streams(view, looks), *load.open_loops(view, looks)]),
                *map(tables, THROUGHPUT.tables),
                tables(open_loop, open_loop.title.replace(":", ", all targets:", 1)),
            ),
            "Neither throughput nor open-loop latency was measured in this study.",
        ),
        Section(
            "memory",
            "Memory",
            "Of the worker process that holds nothing but this target.",
            (
                *_blocks(views, lambda view: [cost.memory(view)]),
                *map(tables, MEMORY.tables),
            ),
            "Memory was not measured in this study.",
        ),
        Section(
            "energy",
            "Power and energy",
            "Read from the hardware's own counters; an estimate is never shown in their place.",
            (
                *_blocks(views, lambda view: cost.energy(view, looks)),
                *map(tables, ENERGY.tables),
            ),
            "Power and energy were not measured in this study.",
        ),
    ]


def _circumstances(results: StudyResults, views: Sequence[View]) -> list[Section]:
    surroundings = (circumstances.machine, circumstances.versions, circumstances.settings)
    return [
        Section(
            "placement",
            "Placement",
            "The operators that each finished artifact delegates to its backend, read back from the file. The others, "
            "and why. Where the runtime reports that the work was done.",
            tuple(Block(view.label, view.key, tables=(study_tables.placement(view),)) for view in views),
            "No artifact reports what it holds.",
        ),
        Section(
            "machine",
            "Machine, versions, settings",
            "Figures belong to this machine and these versions.",
            (Block(tables=tuple(table(results) for table in surroundings)),),
        ),
        Section(
            "warnings",
            "Warnings by cause",
            "Possible disturbances of the measurements.",
            (Block(tables=(circumstances.warnings(views),)),),
            "Nothing was noticed that would have disturbed the measurements.",
        ),
    ]


def _blocks(views: Sequence[View], draw: _Draw) -> tuple[Block, ...]:
    return tuple(Block(view.label, view.key, for_both(functools.partial(draw, view))) for view in views)
