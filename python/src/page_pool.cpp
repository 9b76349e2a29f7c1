// SPDX-License-Identifier: Apache-2.0
#include "page_pool.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>

#include <memory>
#include <optional>
#include <vector>

#include "record.h"

namespace fovea::python {

namespace {

struct Destroy {
  void operator()(fovea_page_pool* pool) const { fovea_page_pool_destroy(pool); }
};
using Pool = std::unique_ptr<fovea_page_pool, Destroy>;

struct PagePool {
  Pool pool;
};

// An array.array("q"): a list for Python, memory for NumPy and PyTorch.
nb::object array_of(const std::vector<int64_t>& values) {
  nb::object array = nb::module_::import_("array").attr("array")("q");
  array.attr("frombytes")(nb::bytes(values.data(), values.size() * sizeof(int64_t)));
  return array;
}

nb::tuple append(PagePool& self, int64_t sequence, int64_t tokens) {
  std::vector<int64_t> slots(tokens > 0 ? static_cast<size_t>(tokens) : 0);
  fovea_page_copy copy;
  check(fovea_page_pool_append(self.pool.get(), sequence, tokens, slots.data(), &copy));
  const nb::object pair = copy.src < 0 ? nb::none() : nb::object(nb::make_tuple(copy.src, copy.dst));
  return nb::make_tuple(array_of(slots), pair);
}

nb::object pages(const PagePool& self, int64_t sequence) {
  int64_t count = 0;
  check(fovea_page_pool_table(self.pool.get(), sequence, nullptr, nullptr, 0, &count));
  std::vector<int64_t> ids(static_cast<size_t>(count));
  check(fovea_page_pool_table(self.pool.get(), sequence, nullptr, ids.data(), count, nullptr));
  return array_of(ids);
}

nb::dict stats(const PagePool& self) {
  Record record(find_struct("page_pool_stats"));
  check(fovea_page_pool_get_stats(self.pool.get(), static_cast<fovea_page_pool_stats*>(record.data())));
  nb::dict out;
  for (size_t i = 0; i < record.info().count; ++i) out[record.info().fields[i].name] = record.get(static_cast<int>(i));
  return out;
}

}  // namespace

void bind_page_pool(nb::module_& m) {
  nb::class_<PagePool>(
      m, "PagePool",
      "The book-keeping of a paged cache: hands out page ids, shares pages between sequences with counts, and "
      "says which\npage to copy before a shared one is written. docs/page_pool.md")
      .def(
          "__init__",
          [](PagePool* self, int64_t pages, int32_t page_size) {
            fovea_page_pool* pool = nullptr;
            check(fovea_page_pool_create(pages, page_size, &pool));
            new (self) PagePool{Pool(pool)};
          },
          nb::arg("pages"), nb::arg("page_size"))
      .def(
          "open",
          [](PagePool& self) {
            int64_t sequence = 0;
            check(fovea_page_pool_open(self.pool.get(), &sequence));
            return sequence;
          },
          "A new, empty sequence: its id.")
      .def(
          "close", [](PagePool& self, int64_t sequence) { check(fovea_page_pool_close(self.pool.get(), sequence)); },
          nb::arg("sequence"), "Releases the sequence's pages.")
      .def(
          "fork",
          [](PagePool& self, int64_t sequence, int64_t tokens) {
            int64_t child = 0;
            check(fovea_page_pool_fork(self.pool.get(), sequence, tokens, &child));
            return child;
          },
          nb::arg("sequence"), nb::arg("tokens"),
          "A new sequence that shares the pages of the first `tokens` tokens: its id.")
      .def("append", &append, nb::arg("sequence"), nb::arg("tokens"),
           "Grows a sequence: (slots, copy), the slot of each new token, and None or the (src, dst) pages to copy "
           "first.")
      .def(
          "truncate",
          [](PagePool& self, int64_t sequence, int64_t tokens) {
            check(fovea_page_pool_truncate(self.pool.get(), sequence, tokens));
          },
          nb::arg("sequence"), nb::arg("tokens"), "Rolls back to `tokens` tokens.")
      .def(
          "drop_before",
          [](PagePool& self, int64_t sequence, int64_t token) {
            check(fovea_page_pool_drop_before(self.pool.get(), sequence, token));
          },
          nb::arg("sequence"), nb::arg("token"),
          "Releases the pages that hold only tokens before `token`: -1 in the table.")
      .def(
          "tokens",
          [](const PagePool& self, int64_t sequence) {
            int64_t tokens = 0;
            check(fovea_page_pool_table(self.pool.get(), sequence, &tokens, nullptr, 0, nullptr));
            return tokens;
          },
          nb::arg("sequence"), "The sequence's length.")
      .def("pages", &pages, nb::arg("sequence"), "The sequence's page table.")
      .def("stats", &stats, "pages, free_pages, shared_pages, sequences.");
}

}  // namespace fovea::python
