// Matrix unit: SIZE x SIZE processing elements, weight-stationary; int8 into int32, or bfloat16 into float32.
//
// A tile is SIZE x SIZE weights, and up to ROWS rows of SIZE activations that are multiplied by it. Row m's sums are
// added into the accumulators of the address that comes with it, one bank a column.
//
// Weights     A row a clock, while weight_valid and weight_ready; SIZE rows are a tile. There are two planes: one is
//             used while the other is filled. weight_ready is low from the last row of a tile until its first use.
// Rows        One a clock, while row_valid and row_ready. row_first marks a tile's first row, which turns to the
//             plane that was filled. row_ready is low while that plane is not full, and while a row of the same
//             address is on its way: it would read sums that are not yet written.
//             row_fresh: accumulators count as zero. bfloat16 only: row_begin: the two sums of a block of 32 in depth
//             begin with zero; row_fold: that block ends, its two sums are added, and then to the accumulator.
// Accumulators  While idle, store_valid writes a row of them, load_valid reads one: `load` has it after the edge.
// Reset       Clears what is on its way and the planes' state, not the accumulators.
//
// Element k of a row enters k clocks after element 0, and goes one column to the right each clock; sums go one row
// down. Element (m, k) meets weight (k, c) k + c clocks after row m was taken, and the sum of column c is in its
// accumulator SIZE + c + 1 clocks after. Weights follow the same diagonal, so a plane is filled behind the last row
// that uses it.
//
// bfloat16: even and odd elements of depth have a sum of their own, added one after the other, each product and
// addition rounded once. An element adds to the sum that two elements above it made, and hands on that of its
// neighbour above.
//
// Registers are written by one process, from a stage's end to its beginning, so each takes what the one before it had
// before the edge. That is the same hardware as with nonblocking assignments, and simulates as loops over memory.
module matrix_unit #(
    parameter  int SIZE    = 32,
    parameter  int ROWS    = 1024,
    parameter  bit IS_BF16 = 0,
    localparam int BITS    = IS_BF16 ? 16 : 8,
    localparam int LANE    = $clog2(SIZE),
    localparam int AT      = $clog2(ROWS)
) (
    input  logic            clk,
    input  logic            reset,
    input  logic            weight_valid,
    output logic            weight_ready,
    input  logic [BITS-1:0] weight       [SIZE],
    input  logic            row_valid,
    output logic            row_ready,
    input  logic [BITS-1:0] row          [SIZE],
    input  logic [  AT-1:0] row_at,
    input  logic            row_first,
    input  logic            row_fresh,
    input  logic            row_begin,
    input  logic            row_fold,
    output logic            idle,
    input  logic            store_valid,
    input  logic            load_valid,
    input  logic [  AT-1:0] port_at,
    input  logic [    31:0] store        [SIZE],
    output logic [    31:0] load         [SIZE]
);
  localparam int PES = SIZE * SIZE;
  localparam int WAY = 2 * SIZE;

  // What is on its way: bit or entry i was taken i clocks ago.
  logic [WAY-1:0] on, fresh, begins, folds;
  logic [AT-1:0] at[WAY];
  logic [SIZE-1:0] planes, weight_on, weight_planes;
  logic [LANE-1:0] weight_at[SIZE];
  logic plane;
  logic [LANE:0] filled;

  // Delay lines, of each lane as many clocks as its number: rings, so nothing moves.
  logic [BITS-1:0] late_row[PES];
  logic [BITS-1:0] late_weight[PES];
  logic [LANE-1:0] now;

  // Processing elements, row by row, and the accumulators, address by address.
  logic [BITS-1:0] act[PES];
  logic act_plane[PES];
  logic [BITS-1:0] weight_0[PES];
  logic [BITS-1:0] weight_1[PES];
  logic [31:0] sum[PES];
  logic [31:0] passed[PES];  // bfloat16: the sum that the element above made
  logic [31:0] total[ROWS*SIZE];
  logic [31:0] even[ROWS*SIZE];
  logic [31:0] odd[ROWS*SIZE];

  logic is_full, is_taken, weight_is_taken;
  logic [BITS-1:0] used;
  logic [31:0] top, top_passed;

  logic on_its_way;
  always_comb begin
    on_its_way = 0;
    for (int unsigned i = 1; i <= SIZE; i++) on_its_way |= on[i] && at[i] == row_at;
  end
  assign is_full = filled == (LANE + 1)'(SIZE);
  assign weight_ready = !is_full;
  assign row_ready = !(row_first && !is_full) && !on_its_way;
  assign idle = on[WAY-1:1] == 0;

  function automatic logic [31:0] int8_step(input logic [31:0] a, input logic [7:0] b, input logic [7:0] c);
    return a + 32'($signed(b)) * 32'($signed(c));
  endfunction

  /* verilator lint_off BLKSEQ */
  always_ff @(posedge clk) begin
    is_taken = row_valid && row_ready;
    weight_is_taken = weight_valid && weight_ready;

    // The control of what is taken now.
    {on[0], fresh[0], begins[0], folds[0]} = {is_taken, row_fresh, row_begin, row_fold};
    at[0] = row_at;
    {weight_on[0], weight_planes[0], weight_at[0]} = {weight_is_taken, !plane, filled[LANE-1:0]};
    if (weight_is_taken) filled = filled + 1;
    if (is_taken && row_first) {plane, filled} = {!plane, (LANE + 1)'(0)};
    planes[0] = plane;

    // Accumulators take the sums that left the last row.
    for (int unsigned c = 0; c < SIZE; c++) begin
      if (on[SIZE+c]) begin
        if (!IS_BF16) total[{at[SIZE+c], LANE'(c)}] = sum[PES-SIZE+c];
        else if (folds[SIZE+c])
          total[{at[SIZE+c], LANE'(c)}] = bf16_math::add(
              fresh[SIZE+c] ? 32'd0 : total[{at[SIZE+c], LANE'(c)}], bf16_math::add(passed[PES-SIZE+c], sum[PES-SIZE+c]));
        else begin
          even[{at[SIZE+c], LANE'(c)}] = passed[PES-SIZE+c];
          odd[{at[SIZE+c], LANE'(c)}]  = sum[PES-SIZE+c];
        end
      end
    end
    if (load_valid) for (int unsigned c = 0; c < SIZE; c++) load[c] = total[{port_at, LANE'(c)}];
    if (store_valid) for (int unsigned c = 0; c < SIZE; c++) total[{port_at, LANE'(c)}] = store[c];

    // Activations go to the right.
    for (int unsigned i = PES - 1; i != 0; i--) act[i] = act[i-1];
    for (int unsigned i = PES - 1; i != 0; i--) act_plane[i] = act_plane[i-1];
    for (int unsigned k = 0; k < SIZE; k++) late_row[{now, LANE'(k)}] = row[k];
    for (int unsigned k = 0; k < SIZE; k++) act[k*SIZE] = late_row[{now-LANE'(k), LANE'(k)}];
    for (int unsigned k = 0; k < SIZE; k++) act_plane[k*SIZE] = planes[k];

    // Sums go down.
    if (!IS_BF16) begin
      for (int unsigned i = PES - 1; i > SIZE - 1; i--)
      sum[i] = int8_step(sum[i-SIZE], act[i][7:0], act_plane[i] ? weight_1[i][7:0] : weight_0[i][7:0]);
      for (int unsigned c = 0; c < SIZE; c++) begin
        top = fresh[c] ? 32'd0 : total[{at[c], LANE'(c)}];
        sum[c] = int8_step(top, act[c][7:0], act_plane[c] ? weight_1[c][7:0] : weight_0[c][7:0]);
      end
    end else begin
      for (int unsigned i = PES - 1; i > SIZE - 1; i--) begin
        used = act_plane[i] ? weight_1[i] : weight_0[i];
        top = sum[i-SIZE];
        sum[i] = bf16_math::multiply_add(passed[i-SIZE], 16'(act[i]), 16'(used));
        passed[i] = top;
      end
      for (int unsigned c = 0; c < SIZE; c++) begin
        used = act_plane[c] ? weight_1[c] : weight_0[c];
        top = begins[c] ? 32'd0 : even[{at[c], LANE'(c)}];
        top_passed = begins[c] ? 32'd0 : odd[{at[c], LANE'(c)}];
        sum[c] = bf16_math::multiply_add(top, 16'(act[c]), 16'(used));
        passed[c] = top_passed;
      end
    end

    // Weights go to the right.
    for (int unsigned c = 0; c < SIZE; c++) late_weight[{now, LANE'(c)}] = weight[c];
    for (int unsigned c = 0; c < SIZE; c++) begin
      if (weight_on[c]) begin
        if (weight_planes[c]) weight_1[{weight_at[c], LANE'(c)}] = late_weight[{now-LANE'(c), LANE'(c)}];
        else weight_0[{weight_at[c], LANE'(c)}] = late_weight[{now-LANE'(c), LANE'(c)}];
      end
    end

    // Control goes on.
    {on, fresh, begins, folds} = {on << 1, fresh << 1, begins << 1, folds << 1};
    {planes, weight_on, weight_planes} = {planes << 1, weight_on << 1, weight_planes << 1};
    for (int unsigned i = WAY - 1; i != 0; i--) at[i] = at[i-1];
    for (int unsigned i = SIZE - 1; i != 0; i--) weight_at[i] = weight_at[i-1];
    now = now + 1;
    if (reset) {on, weight_on, plane, filled} = '0;
  end
endmodule
