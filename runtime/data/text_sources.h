// Finds the text files that a list of files and folders stands for.
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

/// Unusual properties of texts, for people.
struct TextNotes {
  struct Files {
    std::int64_t count = 0;
    std::filesystem::path first;
  };
  std::map<TextFlaw, Files> left_out;
  Files marked;                // a byte order mark at their beginning is dropped
  Files marked_within;         // U+FEFF elsewhere
  Files not_utf8;              // bytes that are no UTF-8
  std::size_t first_byte = 0;  // of not_utf8.first, that is none

  std::int64_t num_left_out(TextFlaw flaw) const;
};

/// Lines for people; none where nothing is unusual. `lines`: the text is read in lines, at whose beginning
/// marks are dropped, too.
std::vector<std::string> describe(const TextNotes& notes, bool lines);

struct TextSources {
  std::vector<std::filesystem::path> files;  // in order of the inputs; within a folder, of the path
  std::int64_t bytes = 0;                    // of these files
  TextNotes notes;
};

struct FindTextOptions {
  std::span<const std::filesystem::path> inputs;
  std::filesystem::path exclude;  // where the results go; empty: nothing
  bool json_as_text = false;
  bool labelled = false;  // lines are "label TAB text", for messages
};

/// Takes files as they are given and walks folders recursively, leaving out names that begin with a dot,
/// links to folders, links to files outside of the folder, and everything below `exclude`. A file that is
/// reached twice, by whatever links, counts once. Files of a folder that are no text in UTF-8, or JSON,
/// are left out and counted; files that are named are refused then, but for empty ones. Throws
/// Error(kInvalidInput) naming an input that is missing, unreadable or refused, with what to do.
TextSources find_text(const FindTextOptions& options);

/// Throws Error(kInvalidInput) where there is no text, with what was left out.
void check_found(const TextSources& sources, std::span<const std::filesystem::path> inputs, bool lines);

}  // namespace trireme
