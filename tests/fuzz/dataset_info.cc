// dataset.json, and the tokenizer that it names.
#include "runtime/data/dataset_info.h"

#include "launcher/data/token_data.h"
#include "tests/fuzz/json_changes.h"
#include "tests/fuzz/reader.h"
#include "tests/support/temporary_folder.h"

namespace trireme::fuzz {
namespace {

/// A folder with files that dataset.json may name, next to one that it may not.
const std::filesystem::path& data_folder() {
  static const std::filesystem::path folder = [] {
    const std::filesystem::path made = scratch_folder() / "data set";
    testing::write_file(made / "tokenizer.model", "a model");
    testing::write_file(made / "inner" / "tokenizer.model", "a model");
    testing::write_file(scratch_folder() / "private", "a secret");
    std::filesystem::create_symlink("../private", made / "link_out");
    std::filesystem::create_symlink("inner/tokenizer.model", made / "link_in");
    std::filesystem::create_directory_symlink("..", made / "out");
    return made;
  }();
  return folder;
}

int fuzz_dataset_info(const std::uint8_t* data, std::size_t size) {
  replace_file(data_folder() / DatasetInfo::kFileName, as_text(data, size));
  std::optional<PreparedData> prepared;
  if (!taken([&] { prepared = find_prepared_data(data_folder()); })) return 0;
  require(prepared.has_value(), "the description is not found");
  std::optional<std::filesystem::path> tokenizer;
  const bool has_tokenizer = taken([&] { tokenizer = tokenizer_file_of(*prepared); });
  require(!tokenizer || lies_in(*tokenizer, data_folder()), "its tokenizer is not in its folder");
  const bool is_read = taken([&] { tokenizer_of(*prepared); });
  require(!is_read || has_tokenizer, "a tokenizer is read that was refused");
  if (!is_read) return 0;
  // An accepted file reads back the same after it is written again.
  write_dataset_info(prepared->info, data_folder());
  const DatasetInfo again = read_dataset_info(data_folder());
  require(again.tokenizer_model == prepared->info.tokenizer_model && again.classes == prepared->info.classes,
          "a description differs when read again");
  return 0;
}

std::vector<std::string> descriptions() {
  std::vector<std::string> texts;
  for (const char* model : {"", "tokenizer.model", "inner/tokenizer.model", "link_in", "link_out"}) {
    const bool has_documents = texts.size() == 1;
    write_dataset_info(
        {.tokenizer = *model == '\0' ? "bytes" : "sentencepiece",
         .tokenizer_model = model,
         .vocab_size = 256,
         .train_tokens = 1000,
         .train_documents = has_documents ? 7 : 0,
         .classes = has_documents ? std::vector<std::string>{"a", "b"} : std::vector<std::string>(),
         .source_files = 2},
        data_folder());
    texts.push_back(testing::read_file(data_folder() / DatasetInfo::kFileName));
  }
  return texts;
}

void change_description(std::string& text, Random& random) {
  static const std::string absolute = "\"" + (scratch_folder() / "private").string() + "\"";
  const std::string_view words[] = {"\"../private\"",
                                    "\"link_out\"",
                                    "\"out/private\"",
                                    "\"inner/../link_out\"",
                                    "\"inner/../../private\"",
                                    absolute,
                                    "\".\"",
                                    "\"..\"",
                                    "\"tokenizer.model/\"",
                                    "\"./link_in\"",
                                    "\"link_out\\u0000\"",
                                    "\"out/data set/tokenizer.model\""};
  change_json(text, random, words);
}

}  // namespace

const Reader kDatasetInfo{"dataset_info", fuzz_dataset_info, descriptions, change_description};

}  // namespace trireme::fuzz
