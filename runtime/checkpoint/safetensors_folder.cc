#include "runtime/checkpoint/safetensors_folder.h"

#include <algorithm>
#include <string_view>
#include <system_error>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/base/file_format.h"
#include "runtime/base/folder_file.h"
#include "runtime/base/mapped_file.h"
#include "runtime/checkpoint/json_file.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

/// Maps tensor names to shard files.
std::map<std::string, std::string> read_index(const fs::path& path) {
  const nlohmann::json index = read_json_file(path, "index of shards");
  const auto map = index.is_object() ? index.find("weight_map") : index.end();
  TRIREME_CHECK(index.is_object() && map != index.end() && map->is_object(),
                "index of shards {} has no \"weight_map\"", path.string());
  std::map<std::string, std::string> shards;
  for (const auto& [tensor, shard] : map->items()) {
    TRIREME_CHECK(shard.is_string(), "index of shards {}: the shard of '{}' is {:.100}, no name of a file",
                  path.string(), tensor, shard.dump());
    const auto name = shard.get<std::string>();
    // Only plain file names, so that a downloaded index cannot open files elsewhere.
    TRIREME_CHECK(is_folder_file_name(name) && name != "." && fs::path(name).filename() == name,
                  "index of shards {}: the shard of '{}' is \"{:.100}\", which is no file of its folder",
                  path.string(), tensor, name.c_str());  // up to a NUL
    shards.emplace(tensor, name);
  }
  return shards;
}

/// The end of a sentence: the weights file that the folder has instead, and the remedy.
std::string describe_other_weights(const fs::path& folder, const std::string& wanted) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    files.push_back(entry->path());
  }
  std::ranges::sort(files);
  for (const fs::path& file : files) {
    static constexpr std::string_view kEndings[] = {".bin", ".pth", ".pt",  ".ckpt",        ".gguf",
                                                    ".h5",  ".npz", ".npy", ".safetensors", ".msgpack"};
    if (std::ranges::find(kEndings, file.extension()) == std::end(kEndings)) continue;
    if (file.extension() == ".safetensors")
      return fmt::format("; it has {}, which is read under the name {}", file.filename().string(), wanted);
    if (!fs::is_regular_file(file, error)) continue;
    const FileFormat format = recognise_format(MappedFile(file, "file").bytes());
    if (format == FileFormat::kUnknown) continue;
    return fmt::format("; its {} is {}: {}", file.filename().string(), name_of(format),
                       advice_for(format, file));
  }
  return ": weights in other formats are not read";
}

}  // namespace

SafetensorsFolder::SafetensorsFolder(const fs::path& folder, const std::string& stem) {
  const std::string file_name = stem + ".safetensors", index_name = file_name + ".index.json";
  path_ = folder / file_name;
  std::error_code error;
  check_is_within({.folder = folder, .name = file_name, .what = "file of weights"});
  if (fs::exists(path_, error)) {
    add(SafetensorsReader(path_));
    return;
  }
  path_ = folder / index_name;
  TRIREME_CHECK(fs::exists(path_, error), "{} has neither {} nor {}{}", folder.string(), file_name,
                index_name, describe_other_weights(folder, file_name));
  check_is_within({.folder = folder, .name = index_name, .what = "index of shards"});
  open_shards();
}

void SafetensorsFolder::open_shards() {
  const auto shards = read_index(path_);
  std::map<std::string, bool> opened;
  for (const auto& [tensor, shard] : shards) {
    if (!opened.emplace(shard, true).second) continue;
    const fs::path file = path_.parent_path() / shard;
    std::error_code error;
    TRIREME_CHECK(fs::exists(file, error), "shard {} is missing: {} has tensor '{}' in it", file.string(),
                  path_.string(), tensor);
    check_is_within({.folder = path_.parent_path(), .name = shard, .what = "shard"});
    add(SafetensorsReader(file));
  }
  for (const auto& [tensor, shard] : shards) {
    const auto found = tensors_.find(tensor);
    TRIREME_CHECK(found != tensors_.end() && found->second.file.filename() == shard,
                  "shard {} has no tensor '{}', which {} has in it", (path_.parent_path() / shard).string(),
                  tensor, path_.string());
  }
}

void SafetensorsFolder::add(SafetensorsReader file) {
  files_.push_back(std::move(file));
  for (const SafetensorsTensor& tensor : files_.back().tensors()) {
    const auto [other, is_new] = tensors_.emplace(tensor.name, Found{&tensor, files_.back().path()});
    TRIREME_CHECK(is_new, "tensor '{}' is in two shards, {} and {}", tensor.name, other->second.file.string(),
                  files_.back().path().string());
  }
}

}  // namespace trireme
