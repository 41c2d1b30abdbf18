// File formats recognised by their first bytes, so that errors about an unexpected file name its actual
// format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace trireme {

enum class FileFormat : std::uint8_t {
  kUnknown,
  kPyTorch,  // torch.save: a zip archive of pickles, or a bare pickle
  kNumpy,    // .npy, .npz
  kGguf,
  kHdf5,
  kGitLfsPointer,  // the placeholder in a clone made without Git LFS
  kHtml,
  kGzip,
  kZstandard,
  kXz,
  kBzip2,
  kZip,
  kParquet,
  kPdf,
};

/// The format of a file that begins with `bytes`; the first 512 bytes are enough.
FileFormat recognise_format(std::span<const std::byte> bytes);

/// "a Git LFS pointer"; empty for kUnknown.
std::string_view name_of(FileFormat format);

/// Advice for a file of this format where text, tokens or weights were expected: "run `git lfs pull` ...".
std::string advice_for(FileFormat format, const std::filesystem::path& path);

}  // namespace trireme
