#include "runtime/data/text_reader.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "runtime/base/file_format.h"

namespace trireme {
namespace {

using namespace std::string_view_literals;

/// An encoding with two or four bytes per character.
struct WideEncoding {
  std::string_view name;  // iconv's name
  std::string_view mark;
};

// UTF-32 first: its little-endian mark begins with the mark of UTF-16.
constexpr WideEncoding kUtf32Le{"UTF-32LE", "\xff\xfe\0\0"sv}, kUtf32Be{"UTF-32BE", "\0\0\xfe\xff"sv},
    kUtf16Le{"UTF-16LE", "\xff\xfe"sv}, kUtf16Be{"UTF-16BE", "\xfe\xff"sv};

const WideEncoding* encoding_of_mark(std::string_view bytes) {
  for (const WideEncoding* encoding : {&kUtf32Le, &kUtf32Be, &kUtf16Le, &kUtf16Be}) {
    if (bytes.starts_with(encoding->mark)) return encoding;
  }
  return nullptr;
}

/// Detects encodings without a mark: Latin letters, spaces and line ends have NULs at fixed positions.
const WideEncoding* encoding_of_zeros(std::string_view bytes) {
  const std::string_view head = bytes.substr(0, std::min<std::size_t>(bytes.size(), 4096) & ~std::size_t{3});
  std::array<std::size_t, 4> zeros{};
  for (std::size_t i = 0; i < head.size(); ++i) zeros[i % 4] += head[i] == '\0' ? 1 : 0;
  const std::size_t quads = head.size() / 4;
  const auto most = [&](std::size_t at) { return 10 * zeros[at] >= 9 * quads; };
  const auto few = [&](std::size_t at) { return 20 * zeros[at] <= quads; };
  if (quads == 0) return nullptr;
  if (few(0) && most(2) && most(3)) return &kUtf32Le;
  if (most(0) && most(1) && few(3)) return &kUtf32Be;
  // Ideographs have no zero bytes, so a tenth of Latin characters suffices if the other bytes are never zero.
  const bool some_odd = 10 * (zeros[1] + zeros[3]) >= 2 * quads,
             some_even = 10 * (zeros[0] + zeros[2]) >= 2 * quads;
  if (bytes.size() % 2 != 0) return nullptr;
  if (few(0) && few(2) && some_odd) return &kUtf16Le;
  if (few(1) && few(3) && some_even) return &kUtf16Be;
  return nullptr;
}

bool is_never_text(FileFormat format) {
  static constexpr FileFormat kFormats[] = {FileFormat::kGzip, FileFormat::kZstandard, FileFormat::kXz,
                                            FileFormat::kBzip2, FileFormat::kPdf};
  return std::ranges::find(kFormats, format) != std::end(kFormats);
}

/// The length of the UTF-8 character at the start of `bytes`; 0: invalid.
std::size_t character_bytes(std::string_view bytes) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t size = first >= 0xC2 && first <= 0xDF   ? 2
                           : (first & 0xF0) == 0xE0         ? 3
                           : first >= 0xF0 && first <= 0xF4 ? 4
                                                            : 0;
  if (size == 0 || bytes.size() < size) return 0;
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  const bool too_long = (first == 0xE0 && byte(1) < 0xA0) || (first == 0xF0 && byte(1) < 0x90);
  const bool no_character = (first == 0xED && byte(1) > 0x9F) || (first == 0xF4 && byte(1) > 0x8F);
  return too_long || no_character ? 0 : size;
}

}  // namespace

std::string_view name_of(TextFlaw flaw) {
  switch (flaw) {
    case TextFlaw::kEmpty:
      return "empty";
    case TextFlaw::kBinary:
      return "binary";
    case TextFlaw::kUtf16:
      return "UTF-16 or UTF-32";
    case TextFlaw::kPointer:
      return "Git LFS pointer";
    case TextFlaw::kJson:
      return "JSON";
    case TextFlaw::kFolderLink:
      return "link to folder";
    case TextFlaw::kFileLink:
      return "linked";
  }
  return "";
}

TextReader::TextReader(const std::filesystem::path& path) : file_(path, "input") {
  const std::string_view bytes{reinterpret_cast<const char*>(file_.bytes().data()), file_.bytes().size()};
  const FileFormat format = recognise_format(file_.bytes());
  const bool has_zeros = !bytes.empty() && std::memchr(bytes.data(), 0, bytes.size()) != nullptr;
  const WideEncoding* wide = encoding_of_mark(bytes);
  const bool has_wide_mark = wide != nullptr;
  if (wide == nullptr && has_zeros && format == FileFormat::kUnknown) wide = encoding_of_zeros(bytes);
  if (wide != nullptr) {
    flaw_ = TextFlaw::kUtf16;
    refusal_ =
        fmt::format("{} is {}{}, and text is read as UTF-8: convert it with `iconv -f {} -t UTF-8 {} > NEW`",
                    path.string(), wide->name, has_wide_mark ? " by its byte order mark" : "",
                    has_wide_mark ? wide->name.substr(0, 6) : wide->name, path.string());
  } else if (format == FileFormat::kGitLfsPointer) {
    flaw_ = TextFlaw::kPointer;
    refusal_ = fmt::format("{} is {}: {}", path.string(), name_of(format), advice_for(format, path));
  } else if (has_zeros || is_never_text(format)) {
    flaw_ = TextFlaw::kBinary;
    refusal_ = format == FileFormat::kUnknown
                   ? fmt::format(
                         "{} is no text: it is binary, with NUL bytes. Leave it out, or name its folder, "
                         "of which binary files are left out",
                         path.string())
                   : fmt::format("{} is no text but {}: {}", path.string(), name_of(format),
                                 advice_for(format, path));
  } else {
    text_ = bytes;
    while (text_.starts_with(kByteOrderMark)) {
      text_.remove_prefix(kByteOrderMark.size());
      has_mark_ = true;
    }
    if (text_.empty()) flaw_ = TextFlaw::kEmpty;
  }
}

Utf8Facts inspect_utf8(std::string_view text) {
  Utf8Facts facts;
  constexpr std::uint64_t kHighBits = 0x8080808080808080;
  for (std::size_t at = 0; at < text.size();) {
    std::uint64_t word = 0;
    if (at + sizeof word <= text.size()) {
      std::memcpy(&word, text.data() + at, sizeof word);
      if ((word & kHighBits) == 0) {
        at += sizeof word;
        continue;
      }
    }
    const std::size_t size = character_bytes(text.substr(at));
    if (size == 0 && !facts.first_invalid) facts.first_invalid = at;
    if (size == 3 && text.substr(at).starts_with(kByteOrderMark)) ++facts.num_marks;
    at += std::max<std::size_t>(size, 1);
  }
  return facts;
}

}  // namespace trireme
