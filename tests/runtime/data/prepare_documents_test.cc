#include "runtime/data/prepare_documents.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "runtime/base/error.h"
#include "runtime/data/document_file.h"
#include "tests/runtime/data/small_vocabulary.h"
#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class PrepareDocumentsTest : public ::testing::Test {
 protected:
  DatasetInfo prepare(const std::string& text, bool labelled = true, double eval_fraction = 0.0) {
    std::ofstream(folder_ / "in.tsv") << text;
    return prepare_documents({.inputs = {folder_ / "in.tsv"},
                              .output = folder_ / "out",
                              .labelled = labelled,
                              .eval_fraction = eval_fraction})
        .info;
  }
  std::string refusal(const std::string& text) {
    try {
      prepare(text);
    } catch (const Error& error) {
      return error.what();
    }
    return "nothing was refused";
  }

  testing::TemporaryFolder folder_;
};

TEST_F(PrepareDocumentsTest, ALineIsADocument) {
  const DatasetInfo info = prepare("b\tfirst\tsecond\r\n\na\tlast");
  EXPECT_THAT(info.classes, ElementsAre("a", "b"));
  EXPECT_EQ(info.train_documents, 2);
  EXPECT_EQ(info.train_tokens, 15);
  const DocumentFile file(folder_ / "out" / "train.bin");
  ASSERT_EQ(file.documents().size(), 2u);
  EXPECT_EQ(file.documents()[0].num_tokens, 11);
  EXPECT_EQ(file.documents()[0].first_segment, 5);
  EXPECT_EQ(file.documents()[0].label, 1);
  EXPECT_EQ(file.documents()[1].first_segment, 4);
  EXPECT_EQ(file.first_token(1), 11);
  const DatasetInfo read = read_dataset_info(folder_ / "out");
  EXPECT_EQ(read.classes, info.classes);
  EXPECT_EQ(read.train_documents, 2);
}

TEST_F(PrepareDocumentsTest, EvaluationIsSpreadOverTheLines) {
  std::string text;
  for (int i = 0; i < 20; ++i) text += std::string(1, static_cast<char>('a' + i)) + "\n";
  const DatasetInfo info = prepare(text, /*labelled=*/false, 0.25);
  EXPECT_EQ(info.train_documents, 15);
  EXPECT_EQ(info.eval_documents, 5);
  std::vector<std::int32_t> tokens(5);
  DocumentFile(folder_ / "out" / "eval.bin").tokens().read(0, 5, tokens.data());
  EXPECT_THAT(tokens, ElementsAre('d', 'h', 'l', 'p', 't'));
  prepare(text, /*labelled=*/false);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out" / "eval.documents"));
}

TEST_F(PrepareDocumentsTest, LineEndsAreAlikeAndMarksAreDropped) {
  const char* texts[] = {"neg\tbad\npos\tgood\n",
                         "neg\tbad\r\npos\tgood\r\n",
                         "neg\tbad\rpos\tgood\r",
                         "\xef\xbb\xbfneg\tbad\npos\tgood",
                         "neg\tbad\n\xef\xbb\xbfpos\tgood\n",
                         "\xef\xbb\xbf\xef\xbb\xbfneg\tbad\r\r\npos\tgood\n"};
  for (const char* text : texts) {
    const DatasetInfo info = prepare(text);
    EXPECT_THAT(info.classes, ElementsAre("neg", "pos")) << text;
    EXPECT_EQ(info.train_tokens, 7) << text;
  }
}

TEST_F(PrepareDocumentsTest, OtherEncodingsAndRecordsAreRefused) {
  EXPECT_THAT(refusal(std::string("\xff\xfen\0\t\0x\0", 8)), HasSubstr("iconv -f UTF-16 -t UTF-8"));
  EXPECT_THAT(refusal(std::string("n\0e\0g\0\t\0x\0\n\0", 12)), HasSubstr("iconv -f UTF-16LE -t UTF-8"));
  EXPECT_THAT(refusal(std::string("neg\tb\0d", 7)), HasSubstr("binary"));
  EXPECT_THAT(refusal("{\"label\": 1, \"text\": \"a\"}\n"), HasSubstr("[.label, .text] | @tsv"));
  EXPECT_THAT(refusal("\xef\xbb\xbf"), HasSubstr("no text was found"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out"));
}

TEST_F(PrepareDocumentsTest, ALineOnWhichPatternsTakeTooLongIsNamed) {
  nlohmann::json json = testing::tokenizer_of({});
  json["pre_tokenizer"] = {{"type", "Sequence"},
                           {"pretokenizers",
                            {{{"type", "Split"},
                              {"pattern", {{"Regex", "[^b]*b|."}}},
                              {"behavior", "Isolated"},
                              {"invert", false}},
                             {{"type", "ByteLevel"}, {"use_regex", false}, {"add_prefix_space", false}}}}};
  std::ofstream(folder_ / "tokenizer.json") << json.dump();
  std::ofstream(folder_ / "in.tsv") << "0\tshort\n1\tx " << std::string(50'000, 'a') << "\n";
  const std::string message = testing::message_of([&] {
    prepare_documents({.inputs = {folder_ / "in.tsv"},
                       .output = folder_ / "out",
                       .tokenizer = (folder_ / "tokenizer.json").string()});
  });
  EXPECT_THAT(message, HasSubstr("in.tsv:2: tokenizer " + (folder_ / "tokenizer.json").string()));
  EXPECT_THAT(message, HasSubstr("take too long at byte "));
}

TEST_F(PrepareDocumentsTest, LinesThatAreNoDocumentsAreNamed) {
  EXPECT_THAT(refusal("a\tx\nno label\n"), HasSubstr("in.tsv:2"));
  EXPECT_THAT(refusal("a\tx\ty\tz\n"), HasSubstr("in.tsv:1"));
  EXPECT_THAT(refusal("a\tx\na\ty\n"), HasSubstr("all 2 documents have the label 'a'"));
  EXPECT_LT(refusal(std::string(100'000, 'a') + "\tx\n").size(), 1000u);
  EXPECT_THAT(refusal("\n"), HasSubstr("there is no text"));
  EXPECT_THAT(refusal(""), HasSubstr("no text was found"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "out"));
}

}  // namespace
}  // namespace trireme
