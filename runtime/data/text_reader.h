// A file of text as the commands that prepare data read it: mapped, its encoding recognised, its byte order
// mark dropped.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/base/mapped_file.h"

namespace trireme {

/// U+FEFF in UTF-8, with which editors of Windows and spreadsheets begin a file.
inline constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

/// Why a file is no text that can be read.
enum class TextFlaw : std::uint8_t {
  kEmpty,       // no bytes, or a byte order mark alone
  kBinary,      // NUL bytes, or an archive or document by its first bytes
  kUtf16,       // UTF-16 or UTF-32, with a mark or without
  kPointer,     // what Git LFS has in place of a file
  kJson,        // JSON: lines of values, an object or a list (see json_records.h)
  kFolderLink,  // a link to a folder
  kFileLink,    // a link to a file outside of the folder ([Note: folders of strangers])
};
/// "UTF-16 or UTF-32"; for counts.
std::string_view name_of(TextFlaw flaw);

class TextReader {
 public:
  /// Maps the file. Throws Error(kInvalidInput) where it is missing or no regular file.
  explicit TextReader(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return file_.path(); }
  /// kEmpty to kPointer; nothing for text in UTF-8, also where some bytes of it are invalid.
  std::optional<TextFlaw> flaw() const { return flaw_; }
  /// What the file is, and what to do; with kBinary, kUtf16 and kPointer.
  const std::string& refusal() const { return refusal_; }

  /// The bytes of the file behind its mark, line ends as they are; empty with a flaw.
  std::string_view text() const { return text_; }
  bool has_mark() const { return has_mark_; }

 private:
  MappedFile file_;
  std::string_view text_;
  bool has_mark_ = false;
  std::optional<TextFlaw> flaw_;
  std::string refusal_;
};

/// What is unusual about a text in UTF-8.
struct Utf8Facts {
  std::optional<std::size_t> first_invalid;  // the byte
  std::int64_t num_marks = 0;                // U+FEFF, as joined files have it in the middle
};
Utf8Facts inspect_utf8(std::string_view text);

}  // namespace trireme
