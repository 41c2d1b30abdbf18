#include <algorithm>
#include <array>
#include <ctime>

#include "tests/fuzz/reader.h"
#include "tests/support/temporary_folder.h"

namespace trireme::fuzz {

std::span<const Reader> readers() {
  static const std::array kReaders = {kJobFile,      kOverrides,     kManifest,   kDatasetInfo, kTokenFile,
                                      kDocumentFile, kSafetensors,   kCifar,      kIdx,         kJpeg,
                                      kPng,          kBlockTimes,    kMetrics,    kHfConfig,    kHfIndex,
                                      kBpe,          kSentencePiece, kWatchedRun, kHttpRequests};
  return kReaders;
}

const Reader& find_reader(std::string_view name) {
  const auto all = readers();
  const auto found = std::ranges::find_if(all, [&](const Reader& reader) { return reader.name == name; });
  require(found != all.end(), "there is no reader of that name");
  return *found;
}

double cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  constexpr double kNsPerSecond = 1e9;
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / kNsPerSecond;
}

bool lies_in(const std::filesystem::path& path, const std::filesystem::path& folder) {
  const std::string inner = std::filesystem::canonical(path).string();
  return inner.starts_with(std::filesystem::canonical(folder).string() + "/");
}

const std::filesystem::path& scratch_folder() {
  static const testing::TemporaryFolder folder;
  return folder.path();
}

void replace_file(const std::filesystem::path& path, std::string_view bytes) {
  // A new file, because overwriting an old one may write to the disk at once, which takes milliseconds.
  std::filesystem::remove(path);
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

std::filesystem::path input_file(const char* name, std::string_view bytes) {
  const std::filesystem::path path = scratch_folder() / name;
  replace_file(path, bytes);
  return path;
}

}  // namespace trireme::fuzz
