#include "runtime/checkpoint/manifest.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <system_error>

#include "runtime/base/atomic_file.h"
#include "runtime/base/error.h"
#include "runtime/base/folder_file.h"
#include "runtime/base/mapped_file.h"
#include "runtime/checkpoint/json_file.h"
#include "runtime/checkpoint/safetensors_reader.h"

namespace trireme {
namespace {

using nlohmann::json;

constexpr const char* kFormat = "trireme-checkpoint";
constexpr int kVersion = 1;
constexpr const char* kOwnChecksum = "manifest_checksum";

std::string to_hex(std::uint64_t value) {
  return fmt::format("{:016x}", value);
}

std::uint64_t from_hex(const std::string& text) {
  std::size_t used = 0;
  const std::uint64_t value = text.empty() ? 0 : std::stoull(text, &used, 16);
  TRIREME_CHECK(used == 16 && used == text.size(), "\"{}\" is not a checksum of 16 digits", text);
  return value;
}

/// The checksum of everything except the checksum itself.
std::string checksum_of(json manifest) {
  manifest.erase(kOwnChecksum);
  const std::string text = manifest.dump();
  ByteHash hash;
  hash.update(std::as_bytes(std::span(text)));
  return to_hex(hash.value());
}

Manifest to_manifest(const json& object) {
  TRIREME_CHECK(object.at("format") == kFormat, "its format is {} instead of \"{}\"",
                object.at("format").dump(), kFormat);
  TRIREME_CHECK(object.at("version") == kVersion, "its version is {}, but this build reads version {}",
                object.at("version").dump(), kVersion);
  TRIREME_CHECK(object.at(kOwnChecksum) == checksum_of(object), "it was changed after it was written");
  Manifest manifest{.step = read_integer<std::int64_t>(object, "step"), .content = object.at("content")};
  for (const json& file : object.at("files")) {
    CheckpointFile& read = manifest.files.emplace_back(
        CheckpointFile{.name = file.at("name").get<std::string>(),
                       .bytes = read_integer<std::uint64_t>(file, "bytes"),
                       .checksum = from_hex(file.at("checksum").get<std::string>()),
                       .tensors = {}});
    TRIREME_CHECK(is_folder_file_name(read.name), "\"{:.200}\" is not the name of a file in its folder",
                  read.name);
    if (!file.contains("tensors")) continue;  // not a safetensors file, or written by an earlier build
    for (const auto& [name, checksum] : file["tensors"].items())
      read.tensors[name] = from_hex(checksum.get<std::string>());
  }
  TRIREME_CHECK(!manifest.files.empty(), "it lists no files");
  return manifest;
}

/// Readers open files of tensors by name. An unlisted one has no checksum, and may be a link to another
/// place.
void check_tensor_files_are_listed(const Manifest& manifest, const std::filesystem::path& folder) {
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->path().extension() != ".safetensors") continue;
    TRIREME_CHECK(std::ranges::find(manifest.files, entry->path().filename().string(),
                                    &CheckpointFile::name) != manifest.files.end(),
                  "checkpoint file {} is not listed in the manifest: remove it, or restore the manifest",
                  entry->path().string());
  }
}

}  // namespace

void write_manifest(const Manifest& manifest, const std::filesystem::path& folder) {
  json files = json::array();
  for (const CheckpointFile& file : manifest.files) {
    files.push_back({{"name", file.name}, {"bytes", file.bytes}, {"checksum", to_hex(file.checksum)}});
    for (const auto& [name, checksum] : file.tensors) files.back()["tensors"][name] = to_hex(checksum);
  }
  json object = {{"format", kFormat},
                 {"version", kVersion},
                 {"step", manifest.step},
                 {"files", files},
                 {"content", manifest.content}};
  std::string text;
  try {
    object[kOwnChecksum] = checksum_of(object);
    text = object.dump(2) + "\n";
  } catch (const json::exception& error) {
    throw Error(ErrorCode::kInvalidInput, "the manifest of {} cannot be written as JSON: {:.300}",
                folder.string(), error.what());
  }
  write_text_file(folder / Manifest::kFileName, text);
}

Manifest read_manifest(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / Manifest::kFileName;
  check_is_within({.folder = folder, .name = Manifest::kFileName, .what = "checkpoint manifest"});
  const json object = read_json_file(path, "checkpoint manifest");
  try {
    return to_manifest(object);
  } catch (const std::exception& error) {
    throw Error(ErrorCode::kInvalidInput, "checkpoint manifest {} is damaged: {:.300}", path.string(),
                error.what());
  }
}

namespace {

/// "; changed: tensor 'a', 'b'", or empty if the file's header does not allow finding them.
std::string name_damaged_tensors(const std::filesystem::path& path, const CheckpointFile& file) {
  if (file.tensors.empty()) return "";
  std::vector<std::string> damaged;
  try {
    const SafetensorsReader reader(path);
    for (const SafetensorsTensor& tensor : reader.tensors()) {
      ByteHash hash;
      hash.update(tensor.data);
      const auto known = file.tensors.find(tensor.name);
      if (known == file.tensors.end() || known->second != hash.value()) damaged.push_back(tensor.name);
    }
  } catch (const Error&) {
    return "; its header is damaged";
  }
  return damaged.empty() ? "; none of its tensors is changed"
                         : fmt::format("; changed: '{}'", fmt::join(damaged, "', '"));
}

}  // namespace

CheckpointFile describe_file(const std::filesystem::path& path) {
  const MappedFile file(path, "checkpoint file");
  ByteHash hash;
  hash.update(file.bytes());
  return {.name = path.filename().string(), .bytes = file.bytes().size(), .checksum = hash.value()};
}

void verify_files(const Manifest& manifest, const std::filesystem::path& folder, Verify verify) {
  check_tensor_files_are_listed(manifest, folder);
  for (const CheckpointFile& file : manifest.files) {
    const std::filesystem::path path =
        file_of_folder({.folder = folder, .name = file.name, .what = "checkpoint file"});
    std::error_code error;
    const std::uint64_t bytes = std::filesystem::file_size(path, error);
    TRIREME_CHECK(!error, "checkpoint file {} cannot be read: {}", path.string(), error.message());
    TRIREME_CHECK(bytes == file.bytes, "checkpoint file {} has {} bytes, but its manifest says {}",
                  path.string(), bytes, file.bytes);
    if (verify != Verify::kChecksums) continue;
    const std::uint64_t checksum = describe_file(path).checksum;
    TRIREME_CHECK(checksum == file.checksum,
                  "checkpoint file {} was changed after it was written: its checksum is {:016x}, but its "
                  "manifest says {:016x}{}",
                  path.string(), checksum, file.checksum, name_damaged_tensors(path, file));
  }
}

}  // namespace trireme
