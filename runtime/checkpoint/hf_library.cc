#include "runtime/checkpoint/hf_library.h"

#include "runtime/base/error.h"

namespace trireme {

const char* weights_stem(HfLibrary library) {
  return library == HfLibrary::kDiffusers ? "diffusion_pytorch_model" : "model";
}

std::filesystem::path hf_network_folder(const std::filesystem::path& folder) {
  std::error_code error;
  if (!std::filesystem::exists(folder / kDiffusersIndexFile, error)) return folder;
  TRIREME_CHECK(std::filesystem::is_directory(folder / kDiffusersNetwork, error),
                "{} is a pipeline of diffusers without {}/: copy the folder of its network there",
                folder.string(), kDiffusersNetwork);
  return folder / kDiffusersNetwork;
}

bool is_hf_folder(const std::filesystem::path& folder) {
  std::error_code error;
  return std::filesystem::exists(hf_network_folder(folder) / kHfConfigFile, error);
}

}  // namespace trireme
