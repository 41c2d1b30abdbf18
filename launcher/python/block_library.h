// Blocks of a shared library in place of those of a job's model: see runtime/block_library.h.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>

#include "runtime/block.h"

namespace trireme {

/// The blocks to train, from those of the job's model.
using OwnBlocks = std::function<BlockList(BlockList model)>;

/// Loads the library until the process ends. `options` are the BlockRequest's. Throws Error(kInvalidInput)
/// naming the file if it cannot be loaded, has no blocks, was built from other sources, or has changed since
/// it was loaded.
OwnBlocks load_blocks(const std::filesystem::path& library, std::map<std::string, std::string> options);

}  // namespace trireme
