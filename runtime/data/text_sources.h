// Finds the text files in a list of files and folders.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/data/text_reader.h"

namespace trireme {

/// Irregularities of texts, for messages.
struct TextNotes {
  struct Files {
    std::int64_t count = 0;
    std::filesystem::path first;
  };
  std::map<TextFlaw, Files> left_out;
  Files marked;                // with a byte order mark at the start, which is dropped
  Files marked_within;         // U+FEFF elsewhere
  Files not_utf8;              // with bytes that are not valid UTF-8
  std::size_t first_byte = 0;  // position of the first invalid byte of not_utf8.first

  std::int64_t num_left_out(TextFlaw flaw) const;
};

/// Lines for messages; none if nothing is irregular. `lines`: the text is read by lines, and marks are also
/// dropped at the start of lines.
std::vector<std::string> describe(const TextNotes& notes, bool lines);

struct TextSources {
  std::vector<std::filesystem::path> files;  // in order of the inputs; within a folder, by path
  std::int64_t bytes = 0;                    // of these files
  TextNotes notes;
};

struct FindTextOptions {
  std::span<const std::filesystem::path> inputs;
  std::filesystem::path exclude;  // folder of the results; empty: none
  bool json_as_text = false;
  bool labelled = false;  // lines are "label TAB text", for messages
};

/// Takes files as given and walks folders recursively. Skips names that begin with a dot, links to folders,
/// links to files outside the folder, and everything below `exclude`. A file reached twice, through any
/// links, counts once. In a folder, files that are JSON, or not UTF-8 text, are skipped and
/// counted; as a named input such a file is an error unless it is empty. Throws Error(kInvalidInput) naming
/// an input that is missing, unreadable or rejected, with the remedy.
TextSources find_text(const FindTextOptions& options);

/// Throws Error(kInvalidInput) if there is no text, listing the skipped files.
void check_found(const TextSources& sources, std::span<const std::filesystem::path> inputs, bool lines);

}  // namespace trireme
