#include "launcher/python/block_library.h"

#include <dlfcn.h>

#include <mutex>
#include <string_view>
#include <utility>

#include "runtime/block_library.h"

namespace trireme {
namespace {

Error about_library(const std::filesystem::path& file, const std::string& problem) {
  return Error(ErrorCode::kInvalidInput, "{}: {}", file.string(), problem).about({.file = file.string()});
}

/// The loader knows libraries by name, and would return the old one.
void check_unchanged(const std::filesystem::path& file) {
  static std::mutex mutex;
  static std::map<std::filesystem::path, std::filesystem::file_time_type> loaded;
  const std::lock_guard lock(mutex);
  const auto written = std::filesystem::last_write_time(file);
  if (loaded.try_emplace(file, written).first->second != written)
    throw about_library(file, "has changed since this process loaded it: start Python again");
}

}  // namespace

OwnBlocks load_blocks(const std::filesystem::path& library, std::map<std::string, std::string> options) {
  const std::filesystem::path file = std::filesystem::absolute(library);  // by name it would be searched for
  void* const handle = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) throw about_library(file, fmt::format("cannot be loaded: {}", ::dlerror()));
  check_unchanged(file);
  const auto interface = reinterpret_cast<const char* (*)()>(::dlsym(handle, "trireme_block_interface"));
  const auto build =
      reinterpret_cast<void (*)(BlockRequest*, BlockList*)>(::dlsym(handle, "trireme_build_blocks"));
  if (interface == nullptr || build == nullptr)
    throw about_library(file, "has no blocks; name their function with TRIREME_BLOCKS");
  if (std::string_view(interface()) != kBlockInterface) {
    throw about_library(file, fmt::format("was built for \"{}\", and this is \"{}\": build the library again "
                                          "from the sources of this version",
                                          interface(), kBlockInterface));
  }
  return [file, build, options = std::move(options)](BlockList model) {
    BlockRequest request{.model = std::move(model), .options = options};
    BlockList blocks;
    build(&request, &blocks);
    if (blocks.empty()) throw about_library(file, "built no blocks");
    return blocks;
  };
}

}  // namespace trireme
