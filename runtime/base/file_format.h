// Formats of files that are recognised by their first bytes, so that a file of another kind than expected is
// refused by what it is.
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
  kPyTorch,  // torch.save: a zip archive of pickles, or a pickle alone
  kNumpy,    // .npy, .npz
  kGguf,
  kHdf5,
  kGitLfsPointer,  // what a clone without Git LFS has in place of a file
  kHtml,
  kGzip,
  kZstandard,
  kXz,
  kBzip2,
  kZip,
  kParquet,
  kPdf,
};

/// The format of a file that begins with `bytes`; the first 512 are enough.
FileFormat recognise_format(std::span<const std::byte> bytes);

/// "a Git LFS pointer"; empty for kUnknown.
std::string_view name_of(FileFormat format);

/// What to do about a file that should hold text, tokens or weights and is of this format: "run `git lfs
/// pull`
/// ...". Empty for kUnknown.
std::string advice_for(FileFormat format, const std::filesystem::path& path);

}  // namespace trireme
