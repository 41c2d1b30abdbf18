#include "runtime/base/file_format.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>

namespace trireme {
namespace {

using namespace std::string_view_literals;

/// `advice` is a format string for the path.
struct FormatTraits {
  FileFormat format;
  std::string_view name, advice;
};

constexpr FormatTraits kTraits[] = {
    {FileFormat::kUnknown, "", ""},
    {FileFormat::kPyTorch, "a PyTorch pickle",
     "pickles are not read, as they can run code; convert it: python3 -c \"import torch, safetensors.torch; "
     "safetensors.torch.save_file({{k: v.clone() for k, v in torch.load('{0}', map_location='cpu', "
     "weights_only=True).items()}}, 'model.safetensors')\""},
    {FileFormat::kNumpy, "a NumPy file",
     "convert it: python3 -c \"import numpy, safetensors.numpy; "
     "safetensors.numpy.save_file(dict(numpy.load('{0}')), 'model.safetensors')\""},
    {FileFormat::kGguf, "a GGUF file of llama.cpp",
     "its weights may be quantised; take the safetensors files of the model that it was made from"},
    {FileFormat::kHdf5, "an HDF5 file",
     "load it in the framework that wrote it (Keras, h5py), and save the arrays with safetensors"},
    {FileFormat::kGitLfsPointer, "a Git LFS pointer, not the file itself",
     "run `git lfs install` and `git lfs pull` in its repository"},
    {FileFormat::kHtml, "an HTML page, not the file itself",
     "download it again; links of Hugging Face to files have \"/resolve/\" where those to pages have "
     "\"/blob/\""},
    {FileFormat::kGzip, "a gzip archive", "unpack it: `gunzip -k {0}`, or `tar xzf` where it is a .tar.gz"},
    {FileFormat::kZstandard, "a Zstandard archive", "unpack it: `unzstd {0}`"},
    {FileFormat::kXz, "an xz archive", "unpack it: `unxz -k {0}`"},
    {FileFormat::kBzip2, "a bzip2 archive", "unpack it: `bunzip2 -k {0}`"},
    {FileFormat::kZip, "a zip archive", "unpack it: `unzip {0}`"},
    {FileFormat::kParquet, "a Parquet file",
     "write its text column to a text file first, e.g. with pandas.read_parquet('{0}')"},
    {FileFormat::kPdf, "a PDF document", "extract its text first: `pdftotext {0}`"},
};

struct Magic {
  std::string_view bytes;
  FileFormat format;
};

constexpr Magic kMagics[] = {
    {"GGUF"sv, FileFormat::kGguf},
    {"\x93NUMPY"sv, FileFormat::kNumpy},
    {"\x89HDF\r\n\x1a\n"sv, FileFormat::kHdf5},
    {"version https://git-lfs.github.com/spec/"sv, FileFormat::kGitLfsPointer},
    {"version https://hawser.github.com/spec/"sv, FileFormat::kGitLfsPointer},
    {"\x1f\x8b\x08"sv, FileFormat::kGzip},
    {"\x28\xb5\x2f\xfd"sv, FileFormat::kZstandard},
    {"\xfd"
     "7zXZ\0"sv,
     FileFormat::kXz},
    {"BZh91AY&SY"sv, FileFormat::kBzip2},
    {"PAR1"sv, FileFormat::kParquet},
    {"%PDF-"sv, FileFormat::kPdf},
};

/// The format of a zip archive, from the name of its first entry.
FileFormat zip_format(std::string_view head) {
  constexpr std::size_t kNameLength = 26, kName = 30;
  if (head.size() < kName) return FileFormat::kZip;
  const auto byte = [&](std::size_t at) {
    return static_cast<std::size_t>(static_cast<unsigned char>(head[at]));
  };
  const std::string_view name = head.substr(kName, byte(kNameLength) | byte(kNameLength + 1) << 8);
  if (name.ends_with(".npy")) return FileFormat::kNumpy;
  const bool is_torch =
      name.ends_with("data.pkl") || name.ends_with(".format_version") || name.ends_with("/version");
  return is_torch ? FileFormat::kPyTorch : FileFormat::kZip;
}

/// True for pickle protocols 2 to 5 followed by an opcode that a checkpoint can begin with.
bool is_pickle(std::string_view head) {
  constexpr std::string_view kFirst =
      "\x8a}]()\x95\x8c"
      "cX";
  return head.size() >= 3 && head[0] == '\x80' && head[1] >= 2 && head[1] <= 5 &&
         kFirst.find(head[2]) != std::string_view::npos;
}

bool is_html(std::string_view head) {
  if (head.starts_with("\xef\xbb\xbf")) head.remove_prefix(3);
  const std::size_t begin = head.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) return false;
  std::string lower(head.substr(begin, 16));
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
  return lower.starts_with("<!doctype html") || lower.starts_with("<html");
}

const FormatTraits& traits_of(FileFormat format) {
  return *std::ranges::find(kTraits, format, &FormatTraits::format);
}

}  // namespace

FileFormat recognise_format(std::span<const std::byte> bytes) {
  const std::span<const std::byte> first = bytes.first(std::min<std::size_t>(bytes.size(), 512));
  const std::string_view head{reinterpret_cast<const char*>(first.data()), first.size()};
  for (const auto& [magic, format] : kMagics) {
    if (head.starts_with(magic)) return format;
  }
  if (head.starts_with("PK\x03\x04")) return zip_format(head);
  if (is_pickle(head)) return FileFormat::kPyTorch;
  return is_html(head) ? FileFormat::kHtml : FileFormat::kUnknown;
}

std::string_view name_of(FileFormat format) {
  return traits_of(format).name;
}

std::string advice_for(FileFormat format, const std::filesystem::path& path) {
  return fmt::format(fmt::runtime(traits_of(format).advice), path.string());
}

}  // namespace trireme
