"""Structures: those of ``csrc/atalla.h`` that the simulated device needs, for ctypes."""

from __future__ import annotations

import ctypes

DRY, EVENTS, POISON, COMPARE = 1, 2, 4, 8
"""Flags of ``atalla_options.device_flags``."""
MATMUL = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
"""``atalla_matmul``: what it is called with, and where its ``atalla_matrix_tile`` is."""


class CHardware(ctypes.Structure):
    """``atalla_hardware``."""

    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("clock_mhz", ctypes.c_uint32),
        ("array", ctypes.c_uint32),
        ("accumulator_rows", ctypes.c_uint32),
        ("lanes", ctypes.c_uint32),
        ("scratchpad_bytes", ctypes.c_uint64),
        ("banks", ctypes.c_uint32),
        ("align", ctypes.c_uint32),
        ("dma_bytes_per_cycle", ctypes.c_uint32),
        ("dma_latency_cycles", ctypes.c_uint32),
        ("queue", ctypes.c_uint32),
        ("issue_cycles", ctypes.c_uint32),
        ("matrix_f32_factor", ctypes.c_uint32),
        ("vector_cycles", ctypes.c_uint32 * 4),
        ("vector_int8_factor", ctypes.c_uint32),
    )


class CMatrixUnit(ctypes.Structure):
    """``atalla_matrix_unit``."""

    _fields_ = (
        ("struct_size", ctypes.c_size_t),
        ("int8", MATMUL),
        ("bf16", MATMUL),
        ("int8_unit", ctypes.c_void_p),
        ("bf16_unit", ctypes.c_void_p),
    )


class CCounters(ctypes.Structure):
    """``atalla_counters``."""

    _fields_ = (
        ("begin", ctypes.c_uint64),
        ("cycles", ctypes.c_uint64),
        ("busy", ctypes.c_uint64 * 4),
        ("stalls", ctypes.c_uint64 * 6),
        ("operations", ctypes.c_uint64 * 4),
        ("in_bytes", ctypes.c_uint64),
        ("out_bytes", ctypes.c_uint64),
        ("descriptors", ctypes.c_uint64),
        ("macs", ctypes.c_uint64),
        ("matrix_cycles", ctypes.c_uint64),
        ("unit_edges", ctypes.c_uint64),
        ("peak_bytes", ctypes.c_uint64 * 2),
        ("room_bytes", ctypes.c_uint64),
        ("tiles", ctypes.c_uint64),
        ("frames", ctypes.c_uint32),
        ("ring", ctypes.c_uint32),
        ("parts", ctypes.c_uint32),
        ("weight_slots", ctypes.c_uint32),
        ("is_host", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
    )


class CTileCost(ctypes.Structure):
    """``atalla_tile_cost``."""

    _fields_ = (
        ("instruction", ctypes.c_uint32),
        ("count", ctypes.c_uint32),
        ("cycles", ctypes.c_uint64 * 4),
        ("operations", ctypes.c_uint32 * 4),
        ("in_bytes", ctypes.c_uint64),
        ("out_bytes", ctypes.c_uint64),
        ("in_descriptors", ctypes.c_uint32),
        ("out_descriptors", ctypes.c_uint32),
        ("late_cycles", ctypes.c_uint64),
        ("spread_cycles", ctypes.c_uint64),
        ("before_spread", ctypes.c_uint64),
        ("early_cycles", ctypes.c_uint64),
        ("bias_cycles", ctypes.c_uint64),
        ("drain_cycles", ctypes.c_uint64),
        ("begins_frame", ctypes.c_uint32),
        ("loads_weights", ctypes.c_uint32),
    )


class CEvent(ctypes.Structure):
    """``atalla_event``."""

    _fields_ = (
        ("begin", ctypes.c_uint64),
        ("end", ctypes.c_uint64),
        ("instruction", ctypes.c_uint32),
        ("tile", ctypes.c_uint32),
        ("bytes", ctypes.c_uint64),
        ("offset", ctypes.c_uint64),
        ("engine", ctypes.c_uint32),
        ("kind", ctypes.c_uint32),
        ("scratchpad", ctypes.c_uint32),
        ("read_count", ctypes.c_uint32),
        ("write_count", ctypes.c_uint32),
        ("regions", ctypes.c_uint32 * 10),
    )
