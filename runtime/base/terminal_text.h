// Text that a terminal shows and never obeys.
//
// [Note: terminal text] Names of files, tensors, keys and fields come from strangers. Control characters in
// them could move the cursor, set titles or hide text, and marks of direction could reorder it. A newline in
// a name could begin a line that looks like another message. Every sink that a terminal may show passes its
// text through a function of this file, so no caller has to. Messages of the log and errors are one line
// each, by terminal_line(). The few that have several lines on purpose are a LinesError or go through
// log_error_lines(); their parts are lines that terminal_line() made.
#pragma once

#include <string>
#include <string_view>

namespace trireme {

/// `text` with each C0 control character but tab and newline, DEL, C1 control character, mark of direction
/// and byte that is no UTF-8 written as an escape: "\x1b", "\u202e".
std::string terminal_text(std::string_view text);

/// The same for one line: tab and newline are escapes, too ("\t", "\n").
std::string terminal_line(std::string_view text);

}  // namespace trireme
