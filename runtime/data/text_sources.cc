#include "runtime/data/text_sources.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <system_error>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/base/file_identity.h"
#include "runtime/base/folder_file.h"
#include "runtime/base/regular_file.h"
#include "runtime/data/json_records.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

bool is_hidden(const fs::path& path) {
  return path.filename().string().starts_with('.');
}

void note(TextNotes::Files& files, const fs::path& path) {
  if (files.count++ == 0) files.first = path;
}

/// Regular files below `folder`, sorted.
std::vector<fs::path> walk(const fs::path& folder, const fs::path& exclude, TextNotes& notes) {
  std::vector<fs::path> files;
  const FolderBounds bounds(folder);
  std::error_code error;
  for (fs::recursive_directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code ignored;  // skips broken links
    if (is_hidden(entry->path())) {
      entry.disable_recursion_pending();
    } else if (entry->is_symlink(ignored) && entry->is_regular_file(ignored) &&
               bounds.lead_out(entry->path())) {
      note(notes.left_out[TextFlaw::kFileLink], entry->path());
    } else if (entry->is_regular_file(ignored)) {
      files.push_back(entry->path());
    } else if (entry->is_symlink(ignored) && entry->is_directory(ignored)) {
      note(notes.left_out[TextFlaw::kFolderLink], entry->path());
    } else if (!exclude.empty() && fs::weakly_canonical(entry->path(), ignored) == exclude) {
      entry.disable_recursion_pending();
    }
  }
  TRIREME_CHECK(!error, "cannot walk folder {}: {}", folder.string(), error.message());
  std::sort(files.begin(), files.end());
  return files;
}

/// The reason why a file is not text; JSON counts as a flaw unless options.json_as_text is set.
std::optional<TextFlaw> flaw_of(const TextReader& file, const FindTextOptions& options, bool is_named) {
  if (file.flaw() || options.json_as_text) return file.flaw();
  const JsonRecords json = find_json_records(file.text());
  if (json.kind == JsonRecords::Kind::kNone) return std::nullopt;
  if (is_named)
    throw Error(ErrorCode::kInvalidInput, "{}", describe_json(json, file.path(), options.labelled));
  return TextFlaw::kJson;
}

void note_utf8(const TextReader& file, TextNotes& notes) {
  if (file.has_mark()) note(notes.marked, file.path());
  const Utf8Facts facts = inspect_utf8(file.text());
  if (facts.num_marks > 0) note(notes.marked_within, file.path());
  if (!facts.first_invalid) return;
  if (notes.not_utf8.count == 0) {
    notes.first_byte = *facts.first_invalid + (file.has_mark() ? kByteOrderMark.size() : 0);
  }
  note(notes.not_utf8, file.path());
}

void add_file(const fs::path& path, const FindTextOptions& options, bool is_named, TextSources& sources) {
  const TextReader file(path);
  if (const auto flaw = flaw_of(file, options, is_named)) {
    const bool is_refused = is_named && *flaw != TextFlaw::kEmpty;
    TRIREME_CHECK(!is_refused, "{}", file.refusal());
    note(sources.notes.left_out[*flaw], path);
    return;
  }
  note_utf8(file, sources.notes);
  sources.files.push_back(path);
  sources.bytes += static_cast<std::int64_t>(file.text().size());
}

std::string advice_for(TextFlaw flaw) {
  switch (flaw) {
    case TextFlaw::kUtf16:
      return "; convert these files to UTF-8 with `iconv -f UTF-16 -t UTF-8`";
    case TextFlaw::kPointer:
      return "; download the files with `git lfs pull`";
    case TextFlaw::kJson:
      return "; extract the text first, e.g. with jq, or read them as text with --as-text";
    case TextFlaw::kFolderLink:
      return "; to include the folders, name them on the command line";
    case TextFlaw::kFileLink:
      return "; the links lead out of the folder: to include the files, name them on the command line";
    case TextFlaw::kEmpty:
    case TextFlaw::kBinary:
      return "";
  }
  return "";
}

}  // namespace

std::int64_t TextNotes::num_left_out(TextFlaw flaw) const {
  const auto found = left_out.find(flaw);
  return found == left_out.end() ? 0 : found->second.count;
}

std::vector<std::string> describe(const TextNotes& notes, bool lines) {
  std::vector<std::string> texts;
  for (const auto& [flaw, files] : notes.left_out) {
    texts.push_back(fmt::format("left out: {} {} {}, the first is {}{}", files.count, name_of(flaw),
                                files.count == 1 ? "file" : "files", files.first.string(), advice_for(flaw)));
  }
  if (notes.marked.count > 0) {
    texts.push_back(
        fmt::format("the byte order mark at the beginning of {} file(s) is dropped, the first is {}",
                    notes.marked.count, notes.marked.first.string()));
  }
  if (notes.marked_within.count > 0) {
    texts.push_back(
        fmt::format("{} file(s) contain byte order marks (U+FEFF) after the beginning, the first is {}: {}",
                    notes.marked_within.count, notes.marked_within.first.string(),
                    lines ? "those at the beginning of a line are dropped" : "they are kept in the text"));
  }
  if (notes.not_utf8.count > 0) {
    texts.push_back(fmt::format(
        "{} file(s) are not UTF-8, the first is {}, at byte {}: their bytes are not converted. If they are "
        "Latin-1, convert them with `iconv -f ISO-8859-1 -t UTF-8`",
        notes.not_utf8.count, notes.not_utf8.first.string(), notes.first_byte));
  }
  return texts;
}

void check_found(const TextSources& sources, std::span<const fs::path> inputs, bool lines) {
  if (!sources.files.empty()) return;
  const std::vector<std::string> notes = describe(sources.notes, lines);
  throw Error(ErrorCode::kInvalidInput, "no text was found in {} input(s), the first of which is {}{}{}",
              inputs.size(), inputs.front().string(), notes.empty() ? "" : "; ", fmt::join(notes, "; "));
}

TextSources find_text(const FindTextOptions& options) {
  TextSources sources;
  std::set<std::pair<std::uint64_t, std::uint64_t>> seen;  // device, inode
  const fs::path exclude = options.exclude.empty() ? fs::path() : fs::weakly_canonical(options.exclude);
  for (const fs::path& input : options.inputs) {
    std::error_code error;
    const fs::file_status status = fs::status(input, error);
    TRIREME_CHECK(fs::exists(status), "input {}{}", describe_missing(input),
                  error && error != std::errc::no_such_file_or_directory ? ": " + error.message() : "");
    const bool folder = fs::is_directory(status);
    for (const fs::path& path : folder ? walk(input, exclude, sources.notes) : std::vector<fs::path>{input}) {
      const auto identity = FileIdentity::of(path);
      if (identity && !seen.emplace(identity->device, identity->inode).second) continue;
      add_file(path, options, !folder, sources);
    }
  }
  return sources;
}

}  // namespace trireme
