#include <algorithm>
#include <array>

#include "tests/fuzz/reader.h"
#include "tests/support/temporary_folder.h"

namespace trireme::fuzz {

std::span<const Reader> readers() {
  static const std::array kReaders = {
      kJobFile, kOverrides, kManifest, kDatasetInfo, kTokenFile, kDocumentFile, kSafetensors, kCifar,
      kIdx,     kJpeg,      kPng,      kBlockTimes,  kMetrics,   kHfConfig,     kHfIndex,     kBpe};
  return kReaders;
}

const Reader& find_reader(std::string_view name) {
  const auto all = readers();
  const auto found = std::ranges::find_if(all, [&](const Reader& reader) { return reader.name == name; });
  require(found != all.end(), "there is no reader of that name");
  return *found;
}

const std::filesystem::path& scratch_folder() {
  static const testing::TemporaryFolder folder;
  return folder.path();
}

void replace_file(const std::filesystem::path& path, std::string_view bytes) {
  // A new file: what is written over an old one may go to the disk at once, which takes milliseconds.
  std::filesystem::remove(path);
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

std::filesystem::path input_file(const char* name, std::string_view bytes) {
  const std::filesystem::path path = scratch_folder() / name;
  replace_file(path, bytes);
  return path;
}

}  // namespace trireme::fuzz
