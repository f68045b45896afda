#include "flatbuffer.h"

#include <cstring>
#include <stdexcept>

namespace cross_backend {

template <typename Number>
Number Flatbuffer::number(std::size_t at) const {
  if (at > bytes_.size() || bytes_.size() - at < sizeof(Number)) throw std::out_of_range("a part lies outside");
  Number value;
  std::memcpy(&value, bytes_.data() + at, sizeof value);
  return value;
}

Flatbuffer Flatbuffer::root(std::string_view bytes) {
  const Flatbuffer start(bytes, 0, std::make_shared<std::size_t>(2 * bytes.size()));
  return {bytes, start.target(0), start.left_};
}

std::uint8_t Flatbuffer::byte(std::size_t slot) const {
  const auto at = field(slot);
  return at ? number<std::uint8_t>(at) : std::uint8_t{0};
}

Flatbuffer Flatbuffer::table(std::size_t slot) const {
  const auto at = field(slot);
  if (!at) throw std::out_of_range("a part is missing");
  take(sizeof(std::uint32_t));
  return {bytes_, target(at), left_};
}

std::vector<Flatbuffer> Flatbuffer::tables(std::size_t slot) const {
  const auto places = vector(slot, sizeof(std::uint32_t));
  std::vector<Flatbuffer> found;
  for (std::size_t i = 0; i < places.size(); i += sizeof(std::uint32_t)) {
    found.push_back({bytes_, target(offset_of(places) + i), left_});
  }
  return found;
}

std::string Flatbuffer::text(std::size_t slot) const { return std::string(vector(slot)); }

std::string_view Flatbuffer::vector(std::size_t slot, std::size_t width) const {
  const auto at = field(slot);
  if (!at) return bytes_.substr(0, 0);
  const auto begin = target(at);
  const auto size = std::uint64_t{number<std::uint32_t>(begin)} * width;
  const auto first = begin + sizeof(std::uint32_t);
  if (size > bytes_.size() - first) throw std::out_of_range("a part lies outside");
  take(static_cast<std::size_t>(size));
  return bytes_.substr(first, static_cast<std::size_t>(size));
}

// Returns where a field lies; 0 where it is left out.
std::size_t Flatbuffer::field(std::size_t slot) const {
  const auto vtable = static_cast<std::int64_t>(at_) - number<std::int32_t>(at_);
  if (vtable < 0) throw std::out_of_range("a part lies outside");
  const auto table = static_cast<std::size_t>(vtable);
  const auto entry = 4 + 2 * slot;
  if (entry >= number<std::uint16_t>(table)) return 0;
  const auto offset = number<std::uint16_t>(table + entry);
  return offset ? at_ + offset : 0;
}

// Follows a reference; it counts from its own place.
std::size_t Flatbuffer::target(std::size_t at) const { return at + number<std::uint32_t>(at); }

void Flatbuffer::take(std::size_t size) const {
  if (size > *left_) throw std::out_of_range("its parts lie on each other");
  *left_ -= size;
}

}  // namespace cross_backend
