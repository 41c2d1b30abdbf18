// The manifest of a checkpoint, and what the trainer notes in it.
#include "runtime/checkpoint/manifest.h"

#include "launcher/train/run_state.h"
#include "runtime/checkpoint/hash.h"
#include "runtime/checkpoint/json_file.h"
#include "tests/fuzz/reader.h"
#include "tests/support/temporary_folder.h"

namespace trireme::fuzz {
namespace {

void read(std::string_view text) {
  input_file(Manifest::kFileName, text);
  taken([] {
    const Checkpoint checkpoint{.folder = scratch_folder(), .manifest = read_manifest(scratch_folder())};
    taken([&] { verify_files(checkpoint.manifest, checkpoint.folder, Verify::kChecksums); });
    read_run_state(checkpoint);
  });
}

/// With the checksum that belongs to it; else hardly an input would get past that.
std::string with_checksum(nlohmann::json manifest) {
  constexpr const char* kOwnChecksum = "manifest_checksum";
  manifest.erase(kOwnChecksum);
  const std::string text = manifest.dump();
  ByteHash hash;
  hash.update(std::as_bytes(std::span(text)));
  manifest[kOwnChecksum] = fmt::format("{:016x}", hash.value());
  return manifest.dump();
}

int fuzz_manifest(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = as_text(data, size);
  read(text);
  nlohmann::json manifest;
  if (taken([&] { manifest = parse_json(text); }) && manifest.is_object()) read(with_checksum(manifest));
  return 0;
}

std::vector<std::string> manifests() {
  const JobConfig config =
      parse_config("[model]\nsize = \"124m\"\n[data]\nkind = \"synthetic\"\n", "job.toml", {});
  const nlohmann::json content =
      to_content({.loss = 2.5,
                  .evaluation_due = true,
                  .state_hash = "0123456789abcdef",
                  .loss_scale = LossScaleState{.scale = 65536.0f, .clean_steps = 3, .updates = 7},
                  .config = config,
                  .data = {.samples = 384,
                           .pass_samples = 100,
                           .train = DataFingerprint{.contents = "1800 tokens", .hash = 5},
                           .tokenizer = {.kind = "bytes", .vocab_size = 256},
                           .class_names = {"cat", "dog"}},
                  .spikes = SpikeState{.loss = {.values = {2.5}}, .grad_norm = {.values = {1.5}}}});
  const auto written = [](const Manifest& manifest) {
    write_manifest(manifest, scratch_folder());
    return testing::read_file(scratch_folder() / Manifest::kFileName);
  };
  return {written({.step = 12,
                   .files = {{"a.safetensors", 100, 0x123456789abcdef0}, {"b", 0, 5}},
                   .content = content}),
          written({.step = 0, .files = {{"model.safetensors", 1, 7}}, .content = {{"loss", 1}}})};
}

}  // namespace

const Reader kManifest{"manifest", fuzz_manifest, manifests};

}  // namespace trireme::fuzz
