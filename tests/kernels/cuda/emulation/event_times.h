// The times at which timing events passed.
#pragma once

struct EmulatedEventState;

/// Registers an event that was made with timing.
void emulated_time_event(const EmulatedEventState* event);
/// Records that a stream has reached the event. Ignores events without timing.
void emulated_event_passed(const EmulatedEventState* event);
void emulated_forget_event(const EmulatedEventState* event);
