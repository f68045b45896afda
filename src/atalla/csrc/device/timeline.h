// Timeline: when each micro-operation begins and ends, by a scoreboard over the engines' queues.
//
// A micro-operation begins when firmware has issued it, its engine has done all before it, what it reads is written,
// and those that read what it overwrites are done. All of these were issued before it, so its times are known at once,
// and nothing ever waits for what comes later.
#pragma once

#include "device.h"

int at_timeline_new(at_device* device);
void at_timeline_free(at_device* device);

// Begins at the time `begin`, with idle engines.
void at_timeline_start(at_device* device, uint64_t begin);

// When all engines are done.
uint64_t at_timeline_end(const at_device* device);

typedef struct {
  unsigned engine, kind;
  uint64_t cycles;
  at_region* reads[MOST_REGIONS];  // NULL where there is none
  at_region* writes[2];
  uint64_t bytes, descriptors;  // of the DMA
} at_operation;

// Issues it; returns when it is done.
uint64_t at_issue(at_device* device, const at_operation* operation);

// Ends a tile: what was issued since the last one is its cost.
void at_end_tile(at_device* device);
