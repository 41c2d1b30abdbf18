#include "runtime/base/terminal_text.h"

#include <gtest/gtest.h>

#include "runtime/base/lines_error.h"
#include "runtime/base/log.h"
#include "tests/support/log_capture.h"

namespace trireme {
namespace {

TEST(TerminalText, WritingOfAnyLanguageStaysAsItIs) {
  for (const char* text :
       {"", "a\tb\nc", "Gr\u00f6\u00dfe \u6a21\u578b \u043c\u043e\u0434\u0435\u043b\u044c \U0001f6a2",
        "\u00A0"})
    EXPECT_EQ(terminal_text(text), text);
}

TEST(TerminalText, CommandsAreWrittenAsEscapes) {
  EXPECT_EQ(terminal_text("a\x1b[2Jb\x07\r"), "a\\x1b[2Jb\\x07\\x0d");
  EXPECT_EQ(terminal_text(std::string_view("\0\x7f", 2)), "\\x00\\u007f");
  EXPECT_EQ(terminal_text("\u009b31m"), "\\u009b31m");  // C1: a control sequence of one code point
  EXPECT_EQ(terminal_text("a\u202eb\u2066\u200f\u061c\u2028"), "a\\u202eb\\u2066\\u200f\\u061c\\u2028");
}

TEST(TerminalText, BytesThatAreNoUtf8AreWrittenAsEscapes) {
  EXPECT_EQ(terminal_text("\x9b\xff"), "\\x9b\\xff");
  EXPECT_EQ(terminal_text("\xc0\x9b"), "\\xc0\\x9b");           // overlong
  EXPECT_EQ(terminal_text("\xed\xa0\x80"), "\\xed\\xa0\\x80");  // a surrogate
  EXPECT_EQ(terminal_text("\xe6\xa8"), "\\xe6\\xa8");           // cut off
  EXPECT_EQ(terminal_text("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
}

TEST(TerminalText, ALineStaysOne) {
  EXPECT_EQ(terminal_line("a\nb\tc\x1b"), "a\\nb\\tc\\x1b");
  EXPECT_EQ(terminal_line(terminal_line("a\nb")), "a\\nb");
  const testing::LogCapture log;
  log_warning("ignoring data\ntrireme: error: all is lost");
  EXPECT_NE(log.text().find("ignoring data\\ntrireme: error"), std::string::npos) << log.text();
}

TEST(TerminalText, ErrorsHaveTheLinesThatTheyWereMadeOf) {
  EXPECT_EQ(shown_message(Error(ErrorCode::kRuntime, "a\nb")), "a\\nb");
  const LinesError lines(ErrorCode::kRuntime, {"a\nb", "c"});
  EXPECT_EQ(shown_message(lines), "a\\nb\nc");
  EXPECT_EQ(one_line(lines), "a\\nb; c");
  EXPECT_EQ(split_lines("a\n\nb\n"), (std::vector<std::string>{"a", "", "b"}));
}

TEST(TerminalText, ANulDoesNotCutAMessage) {
  const std::string name("a\0b\0", 4);
  EXPECT_STREQ(Error(ErrorCode::kRuntime, "tensor '{}' is unknown", name).what(),
               "tensor 'a\\x00b\\x00' is unknown");
  EXPECT_STREQ(Error(ErrorCode::kRuntime, "x").saying(name).what(), "a\\x00b\\x00");
}

TEST(TerminalText, IsWhatTheLogShows) {
  const testing::LogCapture log;
  log_warning("tensor '\x1b]0;title\x07' is unknown");
  EXPECT_NE(log.text().find("tensor '\\x1b]0;title\\x07' is unknown"), std::string::npos) << log.text();
}

}  // namespace
}  // namespace trireme
