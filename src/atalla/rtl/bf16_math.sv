// Arithmetic of bfloat16 products: what run/reference_bf16.py defines, bit by bit.
//
// Each function rounds once, to float32, to the nearest and ties to the even one. A number below the smallest normal
// one, 2^-126, counts as zero of its sign, as an operand and as a result; a result is looked at after it was rounded
// to float32, subnormals included, so what rounds up to 2^-126 stays. Infinities and overflow are IEEE 754's. Every
// NaN that is made or passed on is 32'h7fc00000.
//
// All is combinational: one step a clock. A chip would cut it into stages, which changes the cycles and not the bits.
package bf16_math;

  localparam logic [31:0] NAN = 32'h7fc0_0000;
  localparam int NOTHING = -1000;  // exponent of zero: all others are far above

  // Returns a + b * c of float32 and two bfloat16, the product exact.
  function automatic logic [31:0] multiply_add(input logic [31:0] a, input logic [15:0] b, input logic [15:0] c);
    /* verilator no_inline_task */
    logic sign, b_is_zero, c_is_zero, is_infinite, is_nan;
    logic [15:0] product;
    sign = b[15] ^ c[15];
    b_is_zero = b[14:7] == 0;
    c_is_zero = c[14:7] == 0;
    if (&b[14:7] || &c[14:7] || &a[30:23]) begin
      is_infinite = &b[14:7] || &c[14:7];
      is_nan = (&b[14:7] && (b[6:0] != 0 || c_is_zero)) || (&c[14:7] && (c[6:0] != 0 || b_is_zero));
      is_nan |= &a[30:23] && (a[22:0] != 0 || (is_infinite && a[31] != sign));
      return is_nan ? NAN : is_infinite ? {sign, 8'hff, 23'd0} : a;
    end
    if (b_is_zero || c_is_zero) return add_term(a, sign, NOTHING, 25'd0);
    product = {8'd0, 1'b1, b[6:0]} * {8'd0, 1'b1, c[6:0]};
    return add_term(a, sign, int'({24'd0, b[14:7]}) + int'({24'd0, c[14:7]}) - 127, {product, 9'd0});
  endfunction

  // Returns a + b of float32.
  function automatic logic [31:0] add(input logic [31:0] a, input logic [31:0] b);
    /* verilator no_inline_task */
    logic is_nan;
    if (&a[30:23] || &b[30:23]) begin
      is_nan = (&a[30:23] && a[22:0] != 0) || (&b[30:23] && b[22:0] != 0);
      is_nan |= &a[30:23] && &b[30:23] && a[31] != b[31];
      return is_nan ? NAN : &a[30:23] ? a : b;
    end
    if (b[30:23] == 0) return add_term(a, b[31], NOTHING, 25'd0);
    return add_term(a, b[31], int'({24'd0, b[30:23]}), {2'b01, b[22:0]});
  endfunction

  // Returns a + (-1)^sign * digits * 2^(exponent - 127 - 23) of a finite float32. Both get 27 more
  // digits: a smaller one that loses some is less than a quarter of the larger one's last, and makes no tie.
  function automatic logic [31:0] add_term(input logic [31:0] a, input logic sign, input int exponent,
                                           input logic [24:0] digits);
    /* verilator no_inline_task */
    int a_exponent, most, distance, top, at;
    logic [24:0] a_digits;
    logic [63:0] larger, smaller, shifted, total;
    logic larger_sign, smaller_sign, up;
    logic [30:0] made;
    a_exponent = a[30:23] == 0 ? NOTHING : int'({24'd0, a[30:23]});
    a_digits = a[30:23] == 0 ? 25'd0 : {2'b01, a[22:0]};
    if (a_digits == 0 && digits == 0) return {a[31] & sign, 31'd0};
    if (exponent >= a_exponent) begin
      most = exponent;
      distance = exponent - a_exponent;
      larger = {12'd0, digits, 27'd0};
      smaller = {12'd0, a_digits, 27'd0};
      larger_sign = sign;
      smaller_sign = a[31];
    end else begin
      most = a_exponent;
      distance = a_exponent - exponent;
      larger = {12'd0, a_digits, 27'd0};
      smaller = {12'd0, digits, 27'd0};
      larger_sign = a[31];
      smaller_sign = sign;
    end
    if (distance > 63) distance = 63;
    shifted = smaller >> distance[5:0];
    total = larger_sign == smaller_sign ? larger + shifted : larger - shifted;
    if (total[63]) begin
      total = -total;
      larger_sign = smaller_sign;
    end
    if (total == 0) return 32'd0;

    // The leading one goes to bit 63.
    top = 63;
    for (int unsigned step = 32; step != 0; step >>= 1) begin
      if (total >> (64 - step) == 0) begin
        total <<= step;
        top -= step;
      end
    end
    at = most + top - 50;
    if (at <= 0) return {larger_sign, 7'd0, at == 0 && &total[63:40], 23'd0};
    if (at >= 255) return {larger_sign, 8'hff, 23'd0};
    up = total[39] && (total[38:0] != 0 || total[40]);
    made = {at[7:0], total[62:40]} + {30'd0, up};  // the exponent takes the carry; above all numbers is infinity
    return {larger_sign, made};
  endfunction

endpackage
