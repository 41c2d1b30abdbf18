#include "runtime/data/text_reader.h"

#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace trireme {
namespace {

using namespace std::string_literals;
using testing::TemporaryFolder;
using testing::write_file;

class TextReaderTest : public ::testing::Test {
 protected:
  TextReader open(const std::string& bytes) {
    write_file(folder_ / "in.txt", bytes);
    return TextReader(folder_ / "in.txt");
  }
  /// ASCII `text` with two or four bytes per character.
  static std::string wide(const std::string& text, std::size_t bytes, std::size_t at) {
    std::string result;
    for (const char c : text) {
      std::string character(bytes, '\0');
      character[at] = c;
      result += character;
    }
    return result;
  }
  TemporaryFolder folder_;
};

TEST_F(TextReaderTest, Utf8IsTakenWithoutItsMark) {
  EXPECT_EQ(open("a\r\nb").text(), "a\r\nb");
  EXPECT_FALSE(open("a").has_mark());
  EXPECT_EQ(open("\xef\xbb\xbfna\xc3\xafve\n").text(), "na\xc3\xafve\n");
  EXPECT_TRUE(open("\xef\xbb\xbf"
                   "a")
                  .has_mark());
  EXPECT_EQ(open("a\xef\xbb\xbf"
                 "b")
                .text(),
            "a\xef\xbb\xbf"
            "b");
  EXPECT_EQ(open("\xff").text(), "\xff");  // not valid UTF-8, and no other known encoding
  for (const char* empty : {"", "\xef\xbb\xbf", "\xef\xbb\xbf\xef\xbb\xbf"})
    EXPECT_EQ(open(empty).flaw(), TextFlaw::kEmpty);
}

TEST_F(TextReaderTest, WideEncodingsAreNamedWithAndWithoutMark) {
  const std::string text = "neg\tbad\npos\tgood\n";
  const struct {
    std::string bytes;
    const char* iconv;
  } cases[] = {{"\xff\xfe" + wide(text, 2, 0), "UTF-16 "},
               {"\xfe\xff" + wide(text, 2, 1), "UTF-16 "},
               {"\xff\xfe\0\0"s + wide(text, 4, 0), "UTF-32 "},
               {"\0\0\xfe\xff"s + wide(text, 4, 3), "UTF-32 "},
               {wide(text, 2, 0), "UTF-16LE "},
               {wide(text, 2, 1), "UTF-16BE "},
               {wide(text, 4, 0), "UTF-32LE "},
               {wide(text, 4, 3), "UTF-32BE "},
               {"\xff\xfe", "UTF-16 "}};
  for (const auto& [bytes, iconv] : cases) {
    const TextReader file = open(bytes);
    EXPECT_EQ(file.flaw(), TextFlaw::kUtf16) << iconv;
    EXPECT_NE(file.refusal().find("in.txt is UTF-"), std::string::npos) << file.refusal();
    EXPECT_NE(file.refusal().find("iconv -f "s + iconv), std::string::npos) << file.refusal();
    EXPECT_TRUE(file.text().empty());
  }
}

TEST_F(TextReaderTest, BinariesAreNamedByWhatTheyAre) {
  EXPECT_EQ(open("a\0b"s).flaw(), TextFlaw::kBinary);
  EXPECT_EQ(open("some text, and then one\0"s).flaw(), TextFlaw::kBinary);
  EXPECT_NE(open("\x1f\x8b\x08"
                 "abc")
                .refusal()
                .find("gunzip"),
            std::string::npos);
  EXPECT_NE(open("%PDF-1.4\n").refusal().find("pdftotext"), std::string::npos);
  EXPECT_EQ(open("GGUF is a format.").flaw(), std::nullopt);
  EXPECT_EQ(open("<html>is text</html>").flaw(), std::nullopt);
}

TEST(InspectUtf8, FindsWhatIsNone) {
  EXPECT_FALSE(inspect_utf8("plain \xc3\xa9 \xe2\x82\xac \xf0\x9f\x9a\xa2 \xf4\x8f\xbf\xbf").first_invalid);
  for (const char* bad : {"\x80", "\xc0\x80", "\xc3", "\xe0\x80\x80", "\xed\xa0\x80", "\xf0\x80\x80\x80",
                          "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xe2\x82", "\xc3("}) {
    EXPECT_EQ(inspect_utf8("12345678" + std::string(bad)).first_invalid, 8u);
  }
  EXPECT_EQ(inspect_utf8("a\xef\xbb\xbf"
                         "b\xef\xbb\xbf")
                .num_marks,
            2);
}

}  // namespace
}  // namespace trireme
