// Text that a terminal shows and never obeys.
//
// [Note: terminal text] Names of files, tensors, keys and fields come from strangers. Control characters in
// them could move the cursor, set titles or hide text, and marks of direction could reorder it. Every sink
// that a terminal may show (log, error, `top`) passes its text through terminal_text(), so no caller has to.
#pragma once

#include <string>
#include <string_view>

namespace trireme {

/// `text` with each C0 control character but tab and newline, DEL, C1 control character, mark of direction
/// and byte that is no UTF-8 written as an escape: "\x1b", "\u202e".
std::string terminal_text(std::string_view text);

}  // namespace trireme
