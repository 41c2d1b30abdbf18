// Validates the parts of a sentencepiece model that libsentencepiece reads without bounds checks.
//
// [Note: precompiled_charsmap] The normalizers of a model (fields 3 and 5 of ModelProto) store rules in a
// blob (field 2 of NormalizerSpec): the size of a trie as 32 bits, the trie, and NUL-terminated strings. The
// trie is a double array of Darts-clone: 32-bit units whose offsets point to other units, and whose values
// are positions in the strings. The library follows offsets and values without bounds checks.
#pragma once

#include <filesystem>
#include <string_view>

namespace trireme {

/// Throws Error(kInvalidInput) naming `path` if `model` is not a protobuf message, if the blob of a
/// normalizer points outside itself, or if its strings are not NUL-terminated UTF-8. Fields other than
/// normalizers are left to the library.
void check_sentencepiece_model(std::string_view model, const std::filesystem::path& path);

}  // namespace trireme
