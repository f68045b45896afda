// Scratchpad: hands out parts of the two scratchpads while the program runs, first fit, in simulated time.
#pragma once

#include "device.h"

int at_scratchpads_new(at_device* device);
void at_scratchpads_free(at_device* device);

// Empties both; `room` bytes of each are handed out from here on.
void at_scratchpads_start(at_device* device, size_t room);

// Hands out `count` regions of one scratchpad, all at once, at firmware's time or, where there is no room, at the first
// later time at which enough was given back. Returns ATALLA_TOO_SMALL where waiting would not help: then what firmware
// holds itself is in the way.
int at_take(at_device* device, unsigned scratchpad, const size_t* bytes, size_t count, at_region* regions);

// Frees regions that were taken together: they are free when the last reader and the last writer of all are done.
void at_give(at_device* device, at_region* const* regions, size_t count);

// Of "timeline.c": a new row of events.
atalla_event* at_new_event(at_device* device);
