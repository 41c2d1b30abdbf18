// Escapes control characters, so that untrusted text is safe to show on a terminal.
//
// [Note: terminal text] Names of files, tensors, keys and fields come from untrusted sources. Control
// characters in them could move the cursor, set titles or hide text, and bidirectional marks could reorder
// it. A newline in a name could begin a line that looks like another message. Every sink that a terminal may
// show passes its text through a function of this file, so callers do not have to. Messages of the log and
// errors are one line each, by terminal_line(). The few that have several lines on purpose are a
// LinesError; terminal_line() made each of their lines. Standard output passes through
// launcher/host/standard_output.h.
#pragma once

#include <string>
#include <string_view>

namespace trireme {

/// `text` with escapes ("\x1b", "\u202e") for C0 control characters except tab and newline, DEL, C1 control
/// characters, bidirectional marks and bytes that are not valid UTF-8. JSON keeps its values: the library
/// that writes it escapes C0 characters itself, and the others become escapes of JSON.
std::string terminal_text(std::string_view text);

/// The same for one line: tab and newline are escapes, too ("\t", "\n").
std::string terminal_line(std::string_view text);

}  // namespace trireme
