// Texts for terminals that show no emoji.
#include <array>
#include <string>
#include <utility>

#include "report.h"
#include "text.h"

namespace cross_backend {
namespace {

constexpr std::array<std::pair<const char*, const char*>, 15> kPlain{{
    {"✅", "[ok]"},
    {"❌", "[fail]"},
    {"⚠️", "[warn]"},
    {"🥇", "1."},
    {"🥈", "2."},
    {"🥉", "3."},
    {"📊", "*"},
    {"🏆", "*"},
    {"📈", "*"},
    {"🚀", "*"},
    {"🏃", "-"},
    {"⚡", "-"},
    {"⚖️", "-"},
    {"🎯", "-"},
    {"⏱️", "-"},
}};

std::string without_emoji(std::string text) {
  for (const auto& [emoji, word] : kPlain) {
    const std::string wanted = emoji;
    for (auto at = text.find(wanted); at != std::string::npos; at = text.find(wanted, at)) {
      text.replace(at, wanted.size(), word);
    }
  }
  return text;
}

}  // namespace

std::string shown_text(std::string text, bool plain) {
  text = cross_backend::plain(text);  // reasons come from other processes
  return plain ? without_emoji(text) : text;
}

}  // namespace cross_backend
