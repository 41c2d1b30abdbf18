// Blocks in a shared library that a program loads: `trireme.load_blocks` of the Python package.
//
// The library names its function once, outside of namespaces:
//
//   trireme::BlockList build(trireme::BlockRequest request);
//   TRIREME_BLOCKS(build)
//
// Library and program pass objects of C++ to each other, so both must be built from the same sources and by
// the same compiler. The program refuses other libraries. The library links its own copy of the engine's
// code: trireme::runtime, and trireme::models if it builds on these.
#pragma once

#include <charconv>
#include <map>
#include <string>
#include <utility>

#include "runtime/base/error.h"
#include "runtime/block.h"
#include "runtime/block_interface.h"

namespace trireme {

struct BlockRequest {
  BlockList model;  // the blocks of the job's model: to keep, to wrap or to replace
  std::map<std::string, std::string> options;  // of the program

  /// Throws Error(kInvalidInput) if the option is missing or no whole number.
  std::int64_t number(const std::string& name) const {
    const auto option = options.find(name);
    TRIREME_CHECK(option != options.end(), "the blocks need the option {}", name);
    const std::string& text = option->second;
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    TRIREME_CHECK(error == std::errc() && end == text.data() + text.size(),
                  "the option {} of the blocks is \"{}\", and must be a whole number", name, text);
    return value;
  }
};

}  // namespace trireme

// Visible, although the library may hide its symbols.
#define TRIREME_BLOCKS(build)                                                                         \
  extern "C" [[gnu::visibility("default")]] const char* trireme_block_interface() {                   \
    return trireme::kBlockInterface;                                                                  \
  }                                                                                                   \
  extern "C" [[gnu::visibility("default")]] void trireme_build_blocks(trireme::BlockRequest* request, \
                                                                      trireme::BlockList* blocks) {   \
    *blocks = build(std::move(*request));                                                             \
  }
