// Standard output: results of commands and progress of a run. No other file of the launcher writes there;
// tests/layers checks this.
#pragma once

#include <string_view>

namespace trireme {

/// Prints lines of text, or a JSON document. Control characters except newline and tab become escapes
/// ([Note: terminal text]), also in files and pipes, whose content may reach a terminal later.
void print_text(std::string_view text);

/// Prints one line. Newline and tab within it, as in a file's name, become escapes, too.
void print_line(std::string_view line);

/// Prints text with emphasis: in colour if `is_terminal`, otherwise as {+text+}. Escapes as print_text().
void print_emphasised(std::string_view text, bool is_terminal);

/// Overwrites the last line of a terminal, and flushes.
void refresh_line(std::string_view line);

/// Erases a terminal.
void clear_screen();

/// Prints text that a model generated, and flushes. On a terminal as print_text(); files and pipes get the
/// bytes unchanged.
void print_generated(std::string_view text);

/// Returns false if the output cannot be written.
bool flush_output();

/// Flushes. Throws Error(kRuntime) if output could not be written, as to a full disk.
void check_output_written();

}  // namespace trireme
