// Checks the parts of a sentencepiece model that libsentencepiece reads without bounds.
//
// [Note: precompiled_charsmap] The normalizers of a model (fields 3 and 5 of ModelProto) have rules in a blob
// (field 2 of NormalizerSpec): the size of a trie as 32 bits, the trie, and strings that end with NUL. The
// trie is a double array of Darts-clone: units of 32 bits whose offsets lead to other units, and whose values
// are positions in the strings. The library follows offsets and values wherever they lead.
#pragma once

#include <filesystem>
#include <string_view>

namespace trireme {

/// Throws Error(kInvalidInput) naming `path` where `model` is no message of protobuf, where the blob of a
/// normalizer leads outside of itself, or its strings are no UTF-8 that ends with NUL. Fields that are no
/// normalizer are left to the library.
void check_sentencepiece_model(std::string_view model, const std::filesystem::path& path);

}  // namespace trireme
