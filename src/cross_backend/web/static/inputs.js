// Inputs: what a person draws, drops, films, writes, says or sets, as the bytes that are sent.

import { _ } from "/static/texts.js";

const $ = (id) => document.getElementById(id);

/** Return what reads the input of a kind: `take()` is a Blob, a text, or null where there is none yet. */
export function inputOf(kind, changed) {
  const maker = { digit, image: picture, boxes: picture, numbers, text, audio }[kind];
  return maker ? maker(changed) : { take: async () => null, optional: true };
}

function chosenFile(use) {
  $("file")?.addEventListener("change", (event) => {
    if (event.target.files.length) use(event.target.files[0]);
  });
}

function digit(changed) {
  const canvas = $("drawing"), pen = canvas.getContext("2d", { willReadFrequently: true });
  let last = null, file = null, drawn = false;
  const clear = () => {
    pen.fillStyle = "#ffffff";
    pen.fillRect(0, 0, canvas.width, canvas.height);
    file = null;
    drawn = false;
  };
  const place = (event) => {
    const box = canvas.getBoundingClientRect();
    return [(event.clientX - box.left) * canvas.width / box.width, (event.clientY - box.top) * canvas.height / box.height];
  };
  const stroke = (from, to) => {
    Object.assign(pen, { strokeStyle: "#16191d", lineWidth: 24, lineCap: "round", lineJoin: "round" });
    pen.beginPath();
    pen.moveTo(...from);
    pen.lineTo(...to);
    pen.stroke();
    file = null;
    drawn = true;
  };
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    last = place(event);
    stroke(last, last);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!last) return;
    const now = place(event);
    stroke(last, now);
    last = now;
  });
  for (const end of ["pointerup", "pointercancel"]) {
    canvas.addEventListener(end, () => {
      if (last) changed();
      last = null;
    });
  }
  let at = [canvas.width / 2, canvas.height / 4], down = false;
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: [-8, 0], ArrowRight: [8, 0], ArrowUp: [0, -8], ArrowDown: [0, 8] }[event.key];
    if (event.key === " ") {
      down = !down;
      if (down) stroke(at, at);
      else changed();
    } else if (step) {
      const to = at.map((v, i) => Math.min(Math.max(v + step[i], 12), 212));
      if (down) stroke(at, to);
      at = to;
    } else return;
    event.preventDefault();
  });
  $("clear").addEventListener("click", clear);
  chosenFile(async (given) => {
    clear();
    file = given;
    try {
      const bitmap = await createImageBitmap(given);
      pen.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
    } catch { /* the server says what is wrong with it */ }
    changed();
  });
  clear();
  return { take: () => file || (drawn ? new Promise((done) => canvas.toBlob(done)) : Promise.resolve(null)) };
}

function picture(changed) {
  const drop = $("drop"), preview = $("preview"), camera = $("camera"), frame = document.createElement("canvas");
  let file = null, stream = null;
  const use = (given) => {
    stop();
    file = given;
    URL.revokeObjectURL(preview.src);
    preview.src = URL.createObjectURL(given);
    preview.alt = given.name ? _("The picture %(name)s", given) : _("The picture that was given");
    preview.hidden = false;
    $("drop-text").hidden = true;
    $("marks").hidden = true;
    changed();
  };
  const stop = () => {
    for (const track of stream?.getTracks() ?? []) track.stop();
    stream = null;
    camera.hidden = true;
    $("camera-go").textContent = _("Use the camera");
  };
  preview.addEventListener("error", () => {
    preview.hidden = true;
    $("drop-text").hidden = false;
  });
  drop.addEventListener("dragover", (event) => { event.preventDefault(); drop.classList.add("over"); });
  drop.addEventListener("dragleave", () => drop.classList.remove("over"));
  drop.addEventListener("drop", (event) => {
    event.preventDefault();
    drop.classList.remove("over");
    if (event.dataTransfer.files.length) use(event.dataTransfer.files[0]);
  });
  addEventListener("paste", (event) => {
    const given = [...(event.clipboardData?.files ?? [])].find((one) => one.type.startsWith("image/"));
    if (given) use(given);
  });
  chosenFile(use);
  $("camera-go").addEventListener("click", async () => {
    if (stream) return stop();
    try {
      stream = await navigator.mediaDevices.getUserMedia({ video: { width: 640 } });
    } catch (error) {
      $("said").textContent = _("There is no camera to use (%(name)s).", error);
      return;
    }
    camera.srcObject = stream;
    await camera.play();
    camera.hidden = false;
    preview.hidden = $("drop-text").hidden = true;
    $("camera-go").textContent = _("Stop the camera");
    $("again").checked = true;
    changed();
  });
  return {
    take: () => {
      if (!stream) return Promise.resolve(file);
      [frame.width, frame.height] = [camera.videoWidth, camera.videoHeight];
      frame.getContext("2d").drawImage(camera, 0, 0);
      return new Promise((done) => frame.toBlob(done, "image/jpeg", 0.9));
    },
  };
}

function numbers(changed) {
  const sliders = [...document.querySelectorAll(".sliders input")];
  const tell = (slider) => { slider.previousElementSibling.value = Number(slider.value).toFixed(2); };
  for (const slider of sliders) {
    tell(slider);
    slider.addEventListener("input", () => { tell(slider); changed(); });
  }
  return { take: async () => sliders.map((slider) => slider.value).join(",") };
}

function text() {
  return { take: async () => $("text").value };
}

function audio(changed) {
  let file = null, recorder = null;
  const use = (given) => {
    file = given;
    $("sound").src = URL.createObjectURL(given);
    $("sound").hidden = false;
    changed();
  };
  chosenFile(use);
  $("record").addEventListener("click", async () => {
    if (recorder) return recorder.stop();
    let stream;
    try {
      stream = await navigator.mediaDevices.getUserMedia({ audio: true });
    } catch (error) {
      $("said").textContent = _("There is no microphone to use (%(name)s).", error);
      return;
    }
    const pieces = [];
    recorder = new MediaRecorder(stream);
    recorder.addEventListener("dataavailable", (event) => pieces.push(event.data));
    recorder.addEventListener("stop", async () => {
      for (const track of stream.getTracks()) track.stop();
      recorder = null;
      $("record").textContent = _("Record");
      use(await wave(new Blob(pieces)));
    });
    recorder.start();
    $("record").textContent = _("Stop");
  });
  return { take: async () => file };
}

/** Return a recording as a WAV file of 16 kHz, one channel, 16 bits. */
async function wave(blob) {
  const rate = 16000, context = new OfflineAudioContext(1, 1, rate);
  const heard = (await context.decodeAudioData(await blob.arrayBuffer())).getChannelData(0);
  const view = new DataView(new ArrayBuffer(44 + heard.length * 2));
  const word = (at, letters) => [...letters].forEach((letter, i) => view.setUint8(at + i, letter.charCodeAt(0)));
  word(0, "RIFF");
  view.setUint32(4, 36 + heard.length * 2, true);
  word(8, "WAVEfmt ");
  [[16, 16, 4], [20, 1, 2], [22, 1, 2], [24, rate, 4], [28, rate * 2, 4], [32, 2, 2], [34, 16, 2]].forEach(
    ([at, value, bytes]) => (bytes === 4 ? view.setUint32(at, value, true) : view.setUint16(at, value, true)));
  word(36, "data");
  view.setUint32(40, heard.length * 2, true);
  heard.forEach((v, i) => view.setInt16(44 + i * 2, Math.max(-1, Math.min(1, v)) * 32767, true));
  return new File([view], "recording.wav", { type: "audio/wav" });
}
