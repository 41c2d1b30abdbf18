// Escapes control characters, so that untrusted text is safe to show on a terminal.
//
// [Note: terminal text] Names of files, tensors, keys and fields come from untrusted sources. Control
// characters in them could move the cursor, set titles or hide text, and bidirectional marks could reorder
// it. Every sink that a terminal may show (log, error, `top`) passes its text through terminal_text(), so
// callers do not have to.
#pragma once

#include <string>
#include <string_view>

namespace trireme {

/// `text` with escapes ("\x1b", "\u202e") for C0 control characters except tab and newline, DEL, C1 control
/// characters, bidirectional marks and bytes that are not valid UTF-8.
std::string terminal_text(std::string_view text);

}  // namespace trireme
