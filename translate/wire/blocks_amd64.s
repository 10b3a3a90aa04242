#include "go_asm.h"
#include "textflag.h"
#include "blocks_amd64.h"

// Which bytes may follow a backslash, except u: those for which the entries at the low and the high half of the byte
// have a bit in common.
DATA ·escapeLow+0(SB)/8, $0x00040008000D0000
DATA ·escapeLow+8(SB)/8, $0x0104000200000000
GLOBL ·escapeLow(SB), RODATA|NOPTR, $16
DATA ·escapeHigh+0(SB)/8, $0x0804020000010000
DATA ·escapeHigh+8(SB)/8, $0x0000000000000000
GLOBL ·escapeHigh(SB), RODATA|NOPTR, $16

// The tables of John Keiser and Daniel Lemire, Validating UTF-8 In Less Than One Instruction Per Byte, section 6.1
// (https://arxiv.org/abs/2010.03090): each bit stands for a fault in two bytes that follow each other. It is a fault if
// the entries at both halves of the first byte and at the high half of the second one have it in common.
DATA ·firstHigh+0(SB)/8, $0x0202020202020202
DATA ·firstHigh+8(SB)/8, $0x4915012180808080
GLOBL ·firstHigh(SB), RODATA|NOPTR, $16
DATA ·firstLow+0(SB)/8, $0xCBCBCB8B8383A3E7
DATA ·firstLow+8(SB)/8, $0xCBCBDBCBCBCBCBCB
GLOBL ·firstLow(SB), RODATA|NOPTR, $16
DATA ·secondHigh+0(SB)/8, $0x0101010101010101
DATA ·secondHigh+8(SB)/8, $0x01010101BABAAEE6
GLOBL ·secondHigh(SB), RODATA|NOPTR, $16

// func textBlocks(p *byte, i, n int) int
TEXT ·textBlocks(SB), NOSPLIT, $0-32
	MOVQ p+0(FP), SI
	MOVQ i+8(FP), AX
	MOVQ n+16(FP), CX
	SUBQ $64, CX
	FILL($0x2020202020202020, DX, X0, Y0)
	FILL($0x2222222222222222, DX, X1, Y1)
	FILL($0x5C5C5C5C5C5C5C5C, DX, X2, Y2)
	FILL($0x0F0F0F0F0F0F0F0F, DX, X13, Y13)
	FILL($0x6060606060606060, DX, X14, Y14)  // 0xE0-0x80: the lead of three bytes
	FILL($0x7070707070707070, DX, X15, Y15)  // 0xF0-0x80: the lead of four
	MOVQ $0xAAAAAAAAAAAAAAAA, DI             // every other bit

loop:
	CMPQ     AX, CX
	JGT      done
	VMOVDQU  (SI)(AX*1), Y3
	VMOVDQU  32(SI)(AX*1), Y4
	VPCMPGTB Y3, Y0, Y5          // as signed numbers, control characters and bytes beyond ASCII are less than a space
	VPCMPGTB Y4, Y0, Y6
	VPCMPEQB Y3, Y1, Y7
	VPCMPEQB Y4, Y1, Y8
	VPCMPEQB Y3, Y2, Y9
	VPCMPEQB Y4, Y2, Y10
	VPOR     Y5, Y7, Y11
	VPOR     Y6, Y8, Y12
	VPOR     Y9, Y11, Y11
	VPOR     Y10, Y12, Y12
	VPOR     Y11, Y12, Y11
	VPTEST   Y11, Y11
	JNZ      marked
	ADDQ     $64, AX
	JMP      loop

marked:
	MASK(Y5, Y6, R10)  // controls, and bytes beyond ASCII
	MASK(Y7, Y8, R8)   // quotes
	MASK(Y9, Y10, R9)  // backslashes
	MASK(Y3, Y4, R11)  // bytes beyond ASCII
	XORQ  R12, R12     // escaped bytes
	XORQ  R13, R13     // the backslashes that escape them
	TESTQ R9, R9
	JZ    unescaped

	// As in simdjson (Langdale and Lemire, Parsing Gigabytes of JSON per Second, section 3.1.1): a subtraction carries
	// through each run of backslashes.
	LEAQ (R9)(R9*1), R12
	ORQ  DI, R12
	SUBQ R9, R12
	XORQ DI, R12
	MOVQ R12, R13
	ANDQ R9, R13
	XORQ R9, R12

	UNESCAPABLE
	MASK(Y9, Y10, R9)
	ANDQ           R12, R9                // escaped bytes that may not be
	MOVQ           R12, DX
	NOTQ           DX
	ANDQ           DX, R8                 // quotes that end the string
	ORQ            R9, R8

unescaped:
	MOVQ  R11, DX
	NOTQ  DX
	ANDQ  DX, R10
	ORQ   R10, R8  // and controls: where text ends
	TESTQ R11, R11
	JNZ   beyond
	TESTQ R8, R8
	JNZ   stop
	TESTQ R13, R13
	JLT   cut
	ADDQ  $64, AX
	JMP   loop

cut:           // an escape that goes on in the next block begins that one
	ADDQ $63, AX // a jump, because a sum would have to wait for the masks
	JMP  loop

beyond:
	TABLES
	FAULTS(Y3, 0, Y10)
	FAULTS(Y4, 32, Y11)
	VPOR           Y10, Y11, Y10
	VPTEST         Y10, Y10
	JZ             wellFormed
	ORQ            R11, R8                  // the caller finds out where the fault is
	JMP            stop

wellFormed:
	TESTQ R8, R8
	JNZ   stop

	// A character that goes on in the next block begins that one.
	TESTQ R13, R13
	JLT   cut
	CMPB  63(SI)(AX*1), $0xC0
	JCC   cut
	CMPB  62(SI)(AX*1), $0xE0
	JCC   cut2
	CMPB  61(SI)(AX*1), $0xF0
	JCC   cut3
	ADDQ  $64, AX
	JMP   loop

cut2:
	ADDQ $62, AX
	JMP  loop

cut3:
	ADDQ $61, AX
	JMP  loop

stop:
	BSFQ R8, DX
	ADDQ DX, AX
	BTQ  DX, R12  // an escape is returned from its backslash on
	SBBQ $0, AX

done:
	VZEROUPPER
	MOVQ AX, ret+24(FP)
	RET

// Every other bit.
DATA every<>+0(SB)/8, $0xAAAAAAAAAAAAAAAA
GLOBL every<>(SB), RODATA|NOPTR, $8

// Quotes, spaces and punctuation, each at its low half and with bit 5 set, which [ and ] become { and } by. The other entries
// are no byte with that bit.
DATA ·marks+0(SB)/8, $0x0000000000220020
DATA ·marks+8(SB)/8, $0x00007D2C7B3A0000
GLOBL ·marks(SB), RODATA|NOPTR, $16

// White space, each at its low half. The other entries are bytes with another low half.
DATA blanks<>+0(SB)/8, $0x0000000000000020
DATA blanks<>+8(SB)/8, $0x00000D00000A0900
GLOBL blanks<>(SB), RODATA|NOPTR, $16

// maskBlocks finds the masks of the 64 bytes in Y3 and Y4. Most blocks have only plain ASCII: one shuffle finds their quotes, spaces
// and punctuation, and bits of these characters tell which they are, since instructions that move a mask out of a vector
// are what a block costs. special looks at all others, and goes on at plain with corrected masks.
//
// func maskBlocks(to *block, p *byte, n int, c *carry)
TEXT ·maskBlocks(SB), NOSPLIT, $0-32
	MOVQ to+0(FP), DI
	MOVQ p+8(FP), SI
	MOVQ n+16(FP), CX
	MOVQ c+24(FP), BX
	MOVQ carry_text(BX), R8     // all bits if the block begins in a string
	MOVQ carry_escaped(BX), R9  // 1 if its first byte is escaped
	MOVQ carry_beyond(BX), R15  // the bytes beyond ASCII of the block before
	FILL($0x2020202020202020, DX, X0, Y0)
	FILL($0x5C5C5C5C5C5C5C5C, DX, X1, Y1)
	VBROADCASTI128 ·marks(SB), Y2

block:
	VMOVDQU  (SI), Y3
	VMOVDQU  32(SI), Y4
	VPOR     Y3, Y0, Y8
	VPOR     Y4, Y0, Y9
	VPSHUFB  Y3, Y2, Y10
	VPSHUFB  Y4, Y2, Y11
	VPCMPEQB Y8, Y10, Y8
	VPCMPEQB Y9, Y11, Y9
	MASK(Y8, Y9, R10)          // quotes, spaces and punctuation, and some control characters, which special removes
	BIT(4, R11)                // of these, punctuation
	BIT(6, R12)                // quotes, colons and opening brackets
	XORQ     R13, R13          // what may not be in a string
	XORQ     R14, R14          // white space
	XORQ     BX, BX            // all bits if UTF-8 is not well formed
	VPCMPGTB Y3, Y0, Y8        // control characters and bytes beyond ASCII, as in textBlocks
	VPCMPGTB Y4, Y0, Y9
	VPCMPEQB Y3, Y1, Y10
	VPCMPEQB Y4, Y1, Y11
	VPOR     Y8, Y10, Y10
	VPOR     Y9, Y11, Y11
	VPOR     Y10, Y11, Y10
	VPTEST   Y10, Y10
	JNZ      special
	MOVQ     R9, AX
	ORQ      R15, AX
	JNZ      special

plain:
	MOVQ R11, AX
	NOTQ AX
	ANDQ R10, AX               // quotes and spaces
	ANDQ R11, R10              // punctuation
	MOVQ AX, R11
	ANDQ R12, R11              // quotes
	XORQ R11, AX
	ORQ  AX, R14               // white space

	// The product is for each bit the sum of all bits up to it, without carries, which is 1 from an opening quote to before the closing one.
	VMOVQ      R11, X8
	VPCMPEQB   X9, X9, X9
	VPCLMULQDQ $0, X9, X8, X8
	VMOVQ      X8, DX
	XORQ       R8, DX
	MOVQ       DX, R8
	SARQ       $63, R8

	MOVQ DX, block_text(DI)
	ANDQ DX, R13
	ORQ  BX, R13
	MOVQ R13, block_odd(DI)
	MOVQ R11, AX
	ANDQ DX, AX
	MOVQ AX, block_quote(DI)
	ORQ  R11, DX
	NOTQ DX                    // outside of strings
	ANDQ DX, R10
	ANDQ DX, R14
	MOVQ R14, block_space(DI)
	ORQ  R10, R14
	XORQ DX, R14
	MOVQ R14, block_scalar(DI)
	BIT(1, R11)
	ANDQ R10, R11              // brackets
	XORQ R11, R10              // commas and colons
	MOVQ R12, AX
	ANDQ R11, AX
	MOVQ AX, block_open(DI)
	XORQ R11, AX
	MOVQ AX, block_shut(DI)
	ANDQ R10, R12
	MOVQ R12, block_colon(DI)
	XORQ R12, R10
	MOVQ R10, block_comma(DI)
	BIT(2, R11)                // bit 5, which { and } have and [ and ] have not
	MOVQ R11, block_curly(DI)

	ADDQ $64, SI
	ADDQ $block__size, DI
	DECQ CX
	JNZ  block
	MOVQ c+24(FP), BX
	MOVQ R8, carry_text(BX)
	MOVQ R9, carry_escaped(BX)
	MOVQ R15, carry_beyond(BX)
	VZEROUPPER
	RET

special: // control characters, backslashes and bytes beyond ASCII, here or at the end of the block before
	FILL($0x0F0F0F0F0F0F0F0F, DX, X13, Y13)
	MASK(Y8, Y9, R13)
	MASK(Y3, Y4, AX)           // beyond ASCII
	MOVQ AX, DX
	NOTQ DX
	ANDQ DX, R13               // control characters
	MOVQ R13, DX
	NOTQ DX
	ANDQ DX, R10
	ORQ  AX, R15               // UTF-8 must be checked if it is not 0
	MOVQ AX, R14

	VPCMPEQB Y3, Y1, Y8
	VPCMPEQB Y4, Y1, Y9
	MASK(Y8, Y9, AX)
	MOVQ     AX, DX
	ORQ      R9, DX
	JZ       unescaped

	// As in textBlocks, but the first byte may be escaped.
	MOVQ     R9, BX
	NOTQ     BX
	ANDQ     AX, BX
	LEAQ     (BX)(BX*1), DX
	ORQ      every<>(SB), DX
	SUBQ     BX, DX
	XORQ     every<>(SB), DX
	MOVQ     AX, BX
	ORQ      R9, BX
	XORQ     DX, BX            // escaped bytes
	ANDQ     AX, DX
	MOVQ     DX, R9
	SHRQ     $63, R9
	UNESCAPABLE
	MASK(Y9, Y10, AX)
	ANDQ     BX, AX
	ORQ      AX, R13
	NOTQ     BX
	ANDQ     BX, R10           // without escaped quotes
	XORQ     BX, BX

unescaped:
	TESTQ R15, R15
	JZ    ascii
	MOVQ  R14, R15
	FILL($0x6060606060606060, DX, X14, Y14)
	FILL($0x7070707070707070, DX, X15, Y15)
	TABLES
	XORQ AX, AX
	FAULTS(Y3, 0, Y10)
	FAULTS(Y4, 32, Y11)
	VPOR   Y10, Y11, Y10
	VPTEST Y10, Y10
	JZ     ascii
	MOVQ   $-1, BX             // skipBlocks leaves the text to its caller

ascii:
	VBROADCASTI128 blanks<>(SB), Y5
	VPSHUFB  Y3, Y5, Y8
	VPSHUFB  Y4, Y5, Y9
	VPCMPEQB Y3, Y8, Y8
	VPCMPEQB Y4, Y9, Y9
	MASK(Y8, Y9, R14)          // also tabs and ends of lines
	JMP plain
