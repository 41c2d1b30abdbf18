// When events passed, of those that were made to say so.
#pragma once

struct EmulatedEventState;

/// The event was made with times.
void emulated_time_event(const EmulatedEventState* event);
/// A stream has come to it. Nothing for others.
void emulated_event_passed(const EmulatedEventState* event);
void emulated_forget_event(const EmulatedEventState* event);
