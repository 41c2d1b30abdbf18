// A text file for the data preparation commands: memory-mapped, encoding detected, byte order mark skipped.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/base/mapped_file.h"

namespace trireme {

/// U+FEFF in UTF-8, written by Windows editors and spreadsheets at the start of a file.
inline constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

/// The reason why a file is not readable text.
enum class TextFlaw : std::uint8_t {
  kEmpty,       // no bytes, or only a byte order mark
  kBinary,      // NUL bytes, or the first bytes of an archive or document
  kUtf16,       // UTF-16 or UTF-32, with or without a mark
  kPointer,     // the placeholder of Git LFS for a file
  kJson,        // JSON: lines of values, an object or a list (see json_records.h)
  kFolderLink,  // a link to a folder
  kFileLink,    // a link to a file outside the folder ([Note: folders of strangers])
};
/// "UTF-16 or UTF-32"; for counts.
std::string_view name_of(TextFlaw flaw);

class TextReader {
 public:
  /// Maps the file. Throws Error(kInvalidInput) if it is missing or not a regular file.
  explicit TextReader(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return file_.path(); }
  /// kEmpty to kPointer; nullopt for UTF-8 text, even with some invalid bytes.
  std::optional<TextFlaw> flaw() const { return flaw_; }
  /// Describes the file and the remedy, for kBinary, kUtf16 and kPointer.
  const std::string& refusal() const { return refusal_; }

  /// The bytes after the mark, with unchanged line ends; empty with a flaw.
  std::string_view text() const { return text_; }
  bool has_mark() const { return has_mark_; }

 private:
  MappedFile file_;
  std::string_view text_;
  bool has_mark_ = false;
  std::optional<TextFlaw> flaw_;
  std::string refusal_;
};

/// Irregularities of a UTF-8 text.
struct Utf8Facts {
  std::optional<std::size_t> first_invalid;  // index of the byte
  std::int64_t num_marks = 0;                // U+FEFF within the text, as in joined files
};
Utf8Facts inspect_utf8(std::string_view text);

}  // namespace trireme
